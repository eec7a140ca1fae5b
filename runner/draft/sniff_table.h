// Types and statistics of the columns of a table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <set>
#include "formats/records/csv_dialect.h"

#include "runner/draft/comma_numbers.h"
#include "runner/draft/sniff_column.h"

namespace accel {

struct SniffedTable {
  int64_t rows = 0;
  DetectedDialect dialect;
  CommaReading commas;  ///< of a table that commas do not divide
  bool header = false;
  bool byte_order_mark = false;
  std::vector<SniffedColumn> columns;
  std::set<std::string> repeated_names;  ///< in the header
  std::vector<std::string> na_values;    ///< found texts that mean "missing", sorted
};

/// Reads the whole table. Throws DataError for a file without rows, one that is not UTF-8, and rows
/// of different length.
SniffedTable sniff_table(const std::string& path, bool tab_separated);

}  // namespace accel
