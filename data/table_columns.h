// How the columns of a table become numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/label_map.h"
#include "data/table.h"

namespace accel {

/// The columns of a table by name.
class ColumnNames {
 public:
  /// `names` is empty for a table without a header line.
  ColumnNames(std::vector<std::string> names, size_t count, std::string path);

  size_t count() const { return count_; }
  /// Position of a column given by name, or by number from 0. Throws Error (recipe) saying which
  /// `option` names a column that is not there.
  size_t find(const std::string& column, const std::string& option) const;
  /// The same, and nothing for a column that is not there.
  std::optional<size_t> look_up(const std::string& column) const;
  /// How messages name it.
  std::string describe(size_t column) const;

 private:
  std::vector<std::string> names_;
  size_t count_;
  std::string path_;
};

/// One column as features: a number, or a 1 among 0s for a category.
struct FeatureColumn {
  size_t position = 0;
  bool one_hot = false;
  TextSet seen = {};         ///< categories met while scanning
  LabelMap categories = {};  ///< of a one_hot column; fixed once known

  size_t width() const { return one_hot ? static_cast<size_t>(categories.count()) : 1; }
};

/// The feature columns that the options ask for, in order; all but the target, if there is one,
/// when they name none.
std::vector<FeatureColumn> feature_columns(const TableOptions& options, const ColumnNames& names,
                                           std::optional<size_t> target);

/// A field as a finite float; null when it is none. Spaces around it are ignored.
std::optional<float> field_number(std::string_view field);

/// Whether the first record is a header: it has no number, and the second has one.
bool looks_like_header(const std::vector<std::string_view>& first,
                       const std::vector<std::string_view>& second);

}  // namespace accel
