// Rows of delimited text as feature vectors and targets: what `csv` and `tsv` have in common.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/dataset.h"
#include "core/schema.h"
#include "runner/formats/csv.h"

namespace accel {

/// What a target column holds.
enum class TargetType { kClasses, kNumber };

template <>
struct EnumNames<TargetType> {
  static constexpr std::pair<TargetType, const char*> kValues[] = {
      {TargetType::kClasses, "classes"}, {TargetType::kNumber, "number"}};
};

struct TableOptions {
  FilePath path;
  Auto<bool> header;
  Auto<std::string> delimiter;
  Auto<bool> quoting;
  std::vector<std::string> features;
  std::map<std::string, std::vector<std::string>> one_hot;
  std::optional<double> fill;
  std::string target;
  TargetType target_type = TargetType::kClasses;
  std::vector<std::string> labels;

  static Schema<TableOptions> schema();
};

/// Numbers of a table, read once and kept as float32.
class Table : public Dataset {
 public:
  /// `dialect` is what `auto` means. Throws DataError with file and line for a bad value, and Error
  /// (recipe) for a column that is not there.
  Table(const TableOptions& options, CsvDialect dialect);

  int64_t size() const override { return targets_.count(); }
  Sample sample(int64_t index) const override;
  DataShape shape() const override;
  std::string fingerprint() const override { return fingerprint_; }

 private:
  Array features_;  ///< f32 [rows, width]
  Array targets_;   ///< [rows], i64 classes or f32 numbers
  int64_t classes_ = 0;
  std::vector<std::string> labels_;
  std::string fingerprint_;
};

}  // namespace accel
