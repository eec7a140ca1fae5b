// Errors as people and programs read them.
#pragma once

#include <exception>
#include <string>

#include "core/error.h"

namespace accel {

/// "error: what\n  hint: what to do\n", a recipe's errors one after another, or a JSON object for
/// each.
std::string error_text(const Error& error, bool json = false);

/// Of what is no Error: std::bad_alloc, and what libtorch throws, without its stack trace.
std::string error_text(const std::exception& error, bool json = false);

/// As many of the first lines of JSON as fit into `bytes`; of a first one that is longer, a line
/// that says so with the message's beginning.
std::string whole_lines(const std::string& json, size_t bytes);
/// The exit code that belongs to it.
ExitCode exit_code_of(const std::exception& error);

}  // namespace accel
