// Accelerate's configs for Amazon SageMaker as the section `submit` of a config.
#pragma once

#include <string>

#include "compat/accelerate/config_file.h"

namespace accel {

/// As read_config() for a job on a cluster: a config of Accelerate for SageMaker becomes the
/// section `submit`, every key converted, a warning, or an error. Relative paths of its tables are
/// relative to the file.
ConfigLayer read_submit_config(const std::string& path, Diagnostics& problems);

}  // namespace accel
