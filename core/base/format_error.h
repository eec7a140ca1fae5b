// Error of the byte format readers.
#pragma once

#include <stdexcept>
#include <string>

namespace accel {

/// The bytes violate the format. The message names the fault but not the file: the caller converts
/// it into an error that ends the run and names both.
class FormatError : public std::runtime_error {
 public:
  explicit FormatError(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace accel
