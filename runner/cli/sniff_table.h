// What a table holds, as far as a recipe for it must say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accel {

/// A column to learn from.
struct SniffedColumn {
  std::string name;                 ///< or its number, in a table without a header line
  std::vector<std::string> values;  ///< of a category, sorted; empty for numbers
  double mean = 0;                  ///< of numbers, empty fields counted as 0
  double deviation = 1;             ///< never 0
};

struct SniffedTable {
  int64_t rows = 0;
  bool header = false;
  bool empty_numbers = false;  ///< a feature has fields with nothing in them
  std::vector<SniffedColumn> features;
  std::vector<std::string> left_out;  ///< columns of free text, and row numbers
  std::string target;
  std::vector<std::string> labels;  ///< sorted; empty for a target that is a number
};

/// Reads the whole table. The target is the column named like one, else the last. Throws DataError
/// when there is nothing to learn from or nothing to learn.
SniffedTable sniff_table(const std::string& path, bool tab_separated);

}  // namespace accel
