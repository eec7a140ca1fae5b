// The command line: verbs and the few flags that are no recipe keys.
#pragma once

#include <string>
#include <vector>

namespace accel {

/// Runs what `argv` (the program's name first) asks for and returns the exit code. Errors of the
/// house's own kind are printed on standard error in the form `--error-format` names.
int run_cli(std::vector<std::string> argv);

}  // namespace accel
