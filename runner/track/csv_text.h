// Writes the rows of a CSV table, as RFC 4180 has them.
#pragma once

#include <string>
#include <vector>

namespace accel {

/// The line with its newline. Fields that need quotes get them; line breaks inside become spaces.
std::string csv_line(const std::vector<std::string>& fields);

/// The shortest text that reads back as the same double; "nan", "inf" and "-inf" as data frames
/// read them.
std::string csv_number(double value);

}  // namespace accel
