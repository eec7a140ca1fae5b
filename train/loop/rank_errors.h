// Errors of one rank that end all of them.
#pragma once

#include <exception>
#include <string>

namespace accel {

/// The error as a text for other ranks, which begins with NUL.
std::string error_text(const std::exception& error);

/// Throws the error of an error_text(): IoError or Error. Other texts are ignored.
void throw_if_error(const std::string& text);

}  // namespace accel
