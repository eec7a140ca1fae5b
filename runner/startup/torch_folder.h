// Location of libtorch: the folder of an installation, or the Python package torch that pip
// installed beside the accel-run wheel.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/environment.h"

namespace accel {

/// The folder of libtorch_cpu.so for an accel-run installed in `prefix`: `prefix`/lib/accel-run,
/// else the package torch of a Python in `prefix` (virtual environment, conda, --user, --target),
/// else one of the system packages that a virtual environment includes. None if libtorch is in none
/// of them. A package must have the major and minor `version`: Error if only others are found.
/// `lookup` gives HOME.
std::optional<std::string> find_torch_folder(const std::filesystem::path& prefix,
                                             std::string_view version,
                                             const EnvironmentLookup& lookup);

/// "2.11" of "2.11.0".
std::string minor_version(std::string_view version);

}  // namespace accel
