// The accel-run executable: arguments in, exit code out.
#include <exception>
#include <iostream>

#include "runner/cli/cli.h"
#include "runner/cli/error_text.h"

int main(int argc, char** argv) {
  try {
    return accel::run_cli({argv, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << accel::error_text(error);
    return static_cast<int>(accel::exit_code_of(error));
  }
}
