// What `accel-run env` tells of a machine and of the environment.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace accel {

/// A name and what it is, for a line each.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Compiler, kernel, C library, processor, cores, memory, GPUs. Needs no libtorch.
Facts machine_facts();

/// GPUs of NVIDIA's that this machine has a driver for, as the folder of device files tells. Needs
/// no libtorch.
int64_t gpus_here(const std::string& devices = "/dev");

/// Those variables of `environment` (as `environ`, ending with a null) that can change a run, by
/// name. Of one that may hold a secret only that it is set.
Facts run_variables(const char* const* environment);

}  // namespace accel
