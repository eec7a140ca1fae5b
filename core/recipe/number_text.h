// Grammar of numbers in recipes, and their printing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// Components of a decimal number: `-1_000.5e3` is digits "10005", scale -1 + 3, negative.
struct NumberText {
  bool valid = false;
  bool negative = false;
  bool point = false;     ///< written with a decimal point
  bool exponent = false;  ///< written with an exponent
  std::string digits;     ///< without leading zeros; "0" for zero
  int64_t scale = 0;      ///< the value is digits * 10^scale
  std::string clean;      ///< without underscores, for a conversion to double
  std::string hint;       ///< why it is invalid, if known

  static NumberText read(std::string_view text);

  /// The value as an integer, if it is one in range.
  std::optional<int64_t> whole() const;
  /// The value as a double, unless it overflows or underflows.
  std::optional<double> real() const;
};

/// The shortest text that parses to the same double.
std::string show_number(double value);

}  // namespace accel
