// Hardware, system and environment of this machine, for `accel-run env`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace accel {

/// Names and values, one line each.
using NamedValues = std::vector<std::pair<std::string, std::string>>;

/// Compiler, kernel, C library, processor, cores, memory, GPUs. Needs no libtorch.
NamedValues hardware_info();

/// Number of NVIDIA GPUs with a driver, counted from the device files. Needs no libtorch.
int64_t gpus_here(const std::string& devices = "/dev");

/// The variables of `environment` (as `environ`, null-terminated) that can change a run, sorted by
/// name. The value of a possible secret is replaced by "(set)".
NamedValues run_variables(const char* const* environment);

}  // namespace accel
