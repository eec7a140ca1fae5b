// Errors as text or JSON.
#pragma once

#include <exception>
#include <string>

#include "core/base/error.h"

namespace accel {

/// "error: MESSAGE\n  hint: HINT\n", or a JSON object; one after another for a recipe's errors.
std::string error_text(const Error& error, bool json = false);

/// For other exceptions: std::bad_alloc, and libtorch's without their stack traces.
std::string error_text(const std::exception& error, bool json = false);

/// Prints a text of error_text() on standard error, in colors where it takes them.
void print_error(const std::string& text);

/// The first whole lines of JSON that fit into `bytes`; if the first is too long, an error with the
/// beginning of its message.
std::string whole_lines(const std::string& json, size_t bytes);
/// The exit code for an exception.
ExitCode exit_code_of(const std::exception& error);

}  // namespace accel
