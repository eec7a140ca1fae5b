// The accel-run executable: arguments in, exit code out.
#include <exception>
#include <string>
#include <vector>

#include "runner/cli/cli.h"
#include "runner/cli/error_text.h"
#include "runner/startup/lazy_torch.h"
#include "runner/startup/process_setup.h"

#ifndef ACCEL_HAS_STATIC_PLUGINS
#define ACCEL_HAS_STATIC_PLUGINS false
#endif

namespace {

/// Between loading the shared libraries and their initializers, of which libtorch's allocate much.
void before_initializers() {
  accel::report_uncaught_bad_alloc();
  accel::release_torch_pages(accel::LibraryPages::kAll);
}

__attribute__((section(".preinit_array"), used)) void (*const preinit)() = &before_initializers;

int run(const std::vector<std::string>& arguments) try {
  return accel::run_cli(arguments);
} catch (const std::exception& error) {
  accel::print_error(accel::error_text(error));
  return static_cast<int>(accel::exit_code_of(error));
}

}  // namespace

int main(int argc, char** argv) {
  accel::prepare_process();
  accel::release_torch_pages(accel::LibraryPages::kReadOnly);  // after the initializers
  const int code = run({argv, argv + argc});
  if (!ACCEL_HAS_STATIC_PLUGINS) accel::exit_without_static_destructors(code);
  return code;
}
