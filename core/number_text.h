// The one grammar of numbers in recipes, before they have a type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// A decimal number taken apart: `-1_000.5e3` is digits "10005", scale -1 + 3, negative.
struct NumberText {
  bool valid = false;
  bool negative = false;
  bool point = false;     ///< written with a decimal point
  bool exponent = false;  ///< written with an exponent
  std::string digits;     ///< without leading zeros; "0" for zero
  int64_t scale = 0;      ///< the value is digits * 10^scale
  std::string clean;      ///< without underscores, for a conversion to double
  std::string hint;       ///< why it is not valid, when that is known

  static NumberText read(std::string_view text);

  /// The value when it is whole and fits.
  std::optional<int64_t> whole() const;
  /// The value when a double holds it: not beyond its range, nor too small for it.
  std::optional<double> real() const;
};

}  // namespace accel
