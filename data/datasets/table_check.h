// Checks of a table's records, and their errors by column.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/datasets/label_map.h"
#include "data/datasets/table_columns.h"
#include "formats/records/csv.h"

namespace accel {

/// The target of a table.
struct TargetColumn {
  std::vector<size_t> positions = {};  ///< none: not requested
  TargetType type = TargetType::kClasses;
  bool drop = false;  ///< rows without a target are left out

  bool has(size_t column) const {
    return std::find(positions.begin(), positions.end(), column) != positions.end();
  }
  /// Whether one column holds lists of labels.
  bool lists_labels() const { return type == TargetType::kLabels && positions.size() == 1; }
};

enum class FieldFault {
  kMissing,
  kNoNumber,
  kNoBoolean,
  kNoDate,
  kUnlisted,
  kNoFlag,
  kNoLabels,
  kUnlistedLabel
};

/// Decides which records of a table are used.
class RecordCheck {
 public:
  using Fields = std::vector<std::string_view>;
  using UseFault = std::function<void(size_t column, FieldFault fault)>;

  RecordCheck(const TableOptions& options, ColumnNames names, std::vector<FeatureColumn> columns,
              const TargetColumn& target);

  /// A listed category is a value, even if it is among the texts that mean "missing".
  bool is_missing(const FeatureColumn& column, std::string_view field) const;
  /// Calls `use` with the columns whose missing values leave the record out. Returns whether there
  /// are any.
  bool drops(const Fields& fields, const std::function<void(size_t column)>& use = {}) const;
  /// Calls `use` with each field that cannot be used.
  void each_fault(const Fields& fields, const UseFault& use) const;
  /// Throws DataError for the first field that cannot be used.
  void require_good(const CsvReader& reader, const Fields& fields) const;
  [[noreturn]] void refuse(const std::string& location, size_t column, std::string_view field,
                           FieldFault fault) const;
  /// What to do about missing values in this column.
  std::string missing_hint(size_t column) const;

  const ColumnNames& names() const { return names_; }
  char decimal() const { return decimal_; }

 private:
  bool is_missing_text(std::string_view field) const;
  std::optional<FieldFault> fault_of(const FeatureColumn& column, std::string_view field) const;
  std::optional<FieldFault> fault_of_target(std::string_view field) const;
  std::string hint_for(std::string_view field, FieldFault fault) const;

  ColumnNames names_;
  std::vector<FeatureColumn> columns_;
  TargetColumn target_;
  LabelMap labels_;  ///< empty: any
  TextSet missing_;
  std::array<bool, 256> missing_starts_ = {};  ///< by the first byte of the texts in missing_
  char decimal_;
  bool text_;  ///< the input is a text
};

/// Collects the faults of all records by column, so that one error reports them all.
class TableFaults {
 public:
  void add(const CsvReader& reader, size_t column, std::string_view field, FieldFault fault);
  /// Throws DataError if there are any, of `records` in `path`.
  void check(const RecordCheck& records_check, const std::string& path, int64_t records) const;

 private:
  struct Found {
    int64_t count = 0;
    int64_t line = 0;  ///< of the first
    std::string location, field;
  };
  std::map<std::pair<size_t, FieldFault>, Found> found_;
};

}  // namespace accel
