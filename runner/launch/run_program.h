// Other programs: found on PATH, run to their end.
#pragma once

#include <string>
#include <vector>

namespace accel {

/// Whether PATH has an executable file of this name.
bool has_program(const std::string& name);

struct ProgramEnd {
  int exit_code = 0;   ///< 128 + number for a signal
  std::string output;  ///< of standard output
  std::string errors;  ///< of standard error
};

/// Runs words[0] of PATH with nothing on its standard input, at most `seconds`; then it is killed
/// and the exit code is 137. Throws Error when it cannot be started.
ProgramEnd run_program(const std::vector<std::string>& words, int seconds = 120);

}  // namespace accel
