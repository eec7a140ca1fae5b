// Every key that Accelerate's config file may have.
#pragma once

#include <span>

#include "runner/launch/accelerate_words.h"

namespace accel {

/// Keys at the top of the file. `distributed_type` and `num_processes` are read by config_file.h.
std::span<const ForeignWord> config_keys();

/// Keys inside the section `name`; none when the section is refused whole.
std::span<const ForeignWord> config_section_keys(std::string_view name);

/// Values that `distributed_type` may have in a file of Accelerate's, supported or not.
std::vector<std::string> config_distributed_types();

}  // namespace accel
