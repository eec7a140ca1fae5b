// Choice of the target and the features of a table.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runner/draft/sniff_table.h"

namespace accel {

/// A table, its target, and what becomes of each column.
struct TablePlan {
  SniffedTable& table;
  std::string file;  ///< name, for messages
  size_t target = 0;
  std::string target_reason = {};  ///< "the last column"
  std::vector<size_t> features = {};
  std::vector<std::string> uses = {};  ///< of each column, for people

  const SniffedColumn& goal() const { return table.columns[target]; }
  /// Whether the target is a class rather than a number.
  bool is_class() const;
};

/// Chooses the target, `wished` or by name or the last column, and the features. Throws DataError
/// naming `path` for a target that cannot be predicted, and Error(kRecipe) for a wished column that
/// does not exist.
void choose_columns(TablePlan& plan, const std::string& path, const std::string& wished);

/// The rule that replaces a feature's missing values: "mean", "median" or "mode".
std::string fill_rule(const SniffedColumn& column);

/// Aligned lines with name, type, missing values and use of each column.
std::vector<std::string> column_table(const TablePlan& plan);

}  // namespace accel
