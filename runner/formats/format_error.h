// What the byte format readers throw.
#pragma once

#include <stdexcept>
#include <string>

namespace accel {

/// The bytes are not what the format allows. The message names the fault but not the file: the
/// caller, who knows what the file was for, turns it into an error that ends the run.
class FormatError : public std::runtime_error {
 public:
  explicit FormatError(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace accel
