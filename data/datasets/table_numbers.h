// Numbers, categories, booleans and dates of a table as features, with missing values filled.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/array.h"
#include "data/datasets/table_check.h"
#include "data/datasets/table_columns.h"
#include "data/datasets/table_fill.h"

namespace accel {

/// Fits the fill values of columns to records.
class ColumnFits {
 public:
  using Fields = std::vector<std::string_view>;

  ColumnFits(const std::vector<FeatureColumn>& columns, const RecordCheck& check);

  void add(const Fields& fields);
  /// The value of each column's rule: a number, or a category.
  std::optional<double> number(size_t column) const;
  std::optional<std::string> category(size_t column) const;
  /// Whether a column needs values of records.
  bool needed() const;

 private:
  const std::vector<FeatureColumn>& columns_;
  const RecordCheck& check_;
  std::vector<FillFit> fits_;
};

/// A number of a field of this column, which is not missing and has no fault.
double field_value(const FeatureColumn& column, std::string_view field, char decimal);

/// The features of a table's rows. Missing values are remembered, so that the fill values can be
/// replaced.
class FeatureTable {
 public:
  using Fields = std::vector<std::string_view>;

  /// The categories of all columns are known. `check` must outlive the table. `implicit`: the
  /// recipe does not list the features, so that names and order of the training data's columns are
  /// fitted.
  FeatureTable(std::vector<FeatureColumn> columns, const RecordCheck& check, bool implicit);

  /// Starts anew for this number of rows.
  void begin(int64_t rows);
  /// Adds a row without faults. Throws DataError for an unknown category.
  void add(const CsvReader& reader, const Fields& fields);

  /// Takes the fitted values and fills with them; a column without a value stays unknown if
  /// `partial`. Throws DataError otherwise.
  void fill(const ColumnFits& fits, bool partial);
  /// Takes the values of fitted(); columns that it lacks keep theirs. Returns whether categories or
  /// the order of columns have changed, after which all rows must be added again. Throws DataError
  /// if the features are implicit and are not those of the training data.
  bool take_fitted(const std::string& values);
  /// As JSON; empty without fitted values.
  std::string fitted() const;
  /// Fills the missing values of the rows.
  void apply();

  const Array& features() const { return features_; }
  const std::vector<FeatureColumn>& columns() const { return columns_; }
  int64_t width() const { return width_; }
  /// "41.3", "'basic'" or "2024-01-31": the fill value of a column.
  std::string value_text(size_t column) const;
  int64_t missing(size_t column) const { return missing_[column]; }

 private:
  /// The fill value of a column.
  struct Value {
    std::optional<double> number;
    std::optional<std::string> category;
  };
  struct Cell {
    int64_t row;
    size_t column;
  };

  void put(size_t column, double number, float* out) const;
  void put(size_t column, std::string_view category, float* out) const;
  void place_columns();
  bool reorder(const std::vector<std::string>& names);

  std::vector<FeatureColumn> columns_;
  const RecordCheck& check_;
  bool implicit_;
  std::vector<Value> values_;
  std::vector<size_t> offsets_;  // of each column in a row
  int64_t width_ = 0;
  int64_t row_ = 0;  // the next one
  std::vector<Cell> cells_;
  std::vector<int64_t> missing_;
  Array features_;  // f32 [rows, width]
};

}  // namespace accel
