// Detection of the delimiter and the decimal mark of a table.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "formats/records/csv.h"

namespace accel {

/// What the first records of a table show.
struct DetectedDialect {
  CsvDialect dialect;
  bool decimal_comma = false;  ///< numbers are written as 1,5
  bool certain = true;         ///< false: no delimiter gives records of equal length
};

/// Tries comma, semicolon, tab and bar on the first records. `usual` is the extension's dialect: it
/// is preferred among equals and returned where none fits. Tab-separated text has no quoting unless
/// its fields are quoted. Spaces that follow every delimiter are skipped.
DetectedDialect detect_dialect(std::span<const std::byte> text, CsvDialect usual);

/// Whether the field is a number with a decimal comma, such as "-1,5".
bool has_decimal_comma(std::string_view field);

}  // namespace accel
