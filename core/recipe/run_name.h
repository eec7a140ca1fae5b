// Default names of runs and sweeps, from the names of their files.
#pragma once

#include <cstddef>
#include <string>

namespace accel {

/// At most `most` letters, digits, '.', '_' and '-', and a name that a folder can have.
bool is_plain_name(const std::string& name, size_t most);

/// `stem` if it is plain. Otherwise its plain characters, '_' for the others and a digest of all of
/// it, so that no two files share a name.
std::string run_name_of(const std::string& stem, size_t most);

/// The longest name of a run that a recipe may set.
constexpr size_t kLongestRunName = 64;

}  // namespace accel
