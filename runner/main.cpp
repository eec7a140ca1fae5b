// The accel-run executable: arguments in, exit code out.
#include <exception>
#include <iostream>
#include <new>
#include <string>

#include "core/error.h"
#include "runner/cli/cli.h"

namespace {

/// libtorch puts a stack trace behind its messages; it is of no use to a recipe's author.
std::string first_part(const std::string& text) {
  return text.substr(0, text.find("\nException raised from"));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return accel::run_cli({argv, argv + argc});
  } catch (const std::bad_alloc&) {
    std::cerr << "error: out of memory\n"
                 "  hint: lower 'train.micro_batch' or the size of the model\n";
    return static_cast<int>(accel::ExitCode::kMemory);
  } catch (const std::exception& error) {
    std::cerr << "error: " << first_part(error.what()) << '\n';
    return static_cast<int>(accel::ExitCode::kOther);
  }
}
