// The accel-run executable: arguments in, exit code out.
#include <exception>

#include "runner/cli/cli.h"
#include "runner/cli/error_text.h"
#include "runner/startup/process_setup.h"

namespace {

/// Before the initializers of the shared libraries, of which libtorch's allocate much.
__attribute__((section(".preinit_array"),
               used)) void (*const before_initializers)() = &accel::report_uncaught_bad_alloc;

}  // namespace

int main(int argc, char** argv) {
  accel::prepare_process();
  try {
    return accel::run_cli({argv, argv + argc});
  } catch (const std::exception& error) {
    accel::print_error(accel::error_text(error));
    return static_cast<int>(accel::exit_code_of(error));
  }
}
