// Completion of the command line, as a script for a shell to read.
#pragma once

#include <string>

#include "runner/cli/completion_words.h"

namespace accel {

/// A script for `shell`: bash, zsh or fish. It holds all words, and starts nothing when it runs.
std::string completion_script(const std::string& shell, const CompletionWords& words);

}  // namespace accel
