// Quoting for POSIX shells.
#pragma once

#include <string>

namespace accel {

/// `word` as a shell reads it back.
std::string shell_word(const std::string& word);

}  // namespace accel
