// Whether the commas in the numbers of a table are decimal marks or separate thousands.
#pragma once

#include <cstddef>
#include <string>

#include "core/base/mapped_file.h"
#include "formats/records/csv.h"

namespace accel {

struct CommaReading {
  bool decimal = false;  ///< 1,5 is one and a half
  /// Of a guess: a number with either meaning, such as 1,500, and its column. Empty: the numbers
  /// leave no doubt.
  std::string example = {};
  size_t column = 0;
};

/// Reads the whole table. A comma is a decimal mark if a number has no group of three digits after
/// it (1,5), a zero before it (0,125) or stands beside whole numbers of four digits; it separates
/// thousands if a number has several (1,234,567) or a decimal point. Without such numbers in any
/// column it is a guess: thousands if the columns of 1,500 have whole numbers below 1000, else
/// decimal marks.
CommaReading read_commas(const SharedBytes& file, CsvDialect dialect, const std::string& path);

}  // namespace accel
