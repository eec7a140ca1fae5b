// Rows of delimited text as feature vectors and targets: what `csv` and `tsv` have in common.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dataset.h"
#include "core/input_path.h"
#include "core/schema.h"
#include "data/bad_samples.h"
#include "data/length_groups.h"
#include "data/text_columns.h"
#include "runner/formats/csv.h"
#include "runner/formats/mapped_file.h"

namespace accel {

/// What a target column holds.
enum class TargetType { kClasses, kNumber };

template <>
struct EnumNames<TargetType> {
  static constexpr std::pair<TargetType, const char*> kValues[] = {
      {TargetType::kClasses, "classes"}, {TargetType::kNumber, "number"}};
};

struct TableOptions : TextColumnOptions {
  InputFile path;
  Auto<bool> header;
  Auto<std::string> delimiter;
  Auto<bool> quoting;
  std::vector<std::string> features;
  std::map<std::string, std::vector<std::string>> one_hot;
  std::optional<double> fill;
  std::string target;
  TargetType target_type = TargetType::kClasses;
  std::vector<std::string> labels;
  OnBadSample on_bad_sample;

  static Schema<TableOptions> schema();
};

/// What the columns of a table become, but for the target.
class TableInputs {
 public:
  virtual ~TableInputs() = default;

  /// The fields of the next row, which `reader` has just read.
  virtual void add(const CsvReader& reader, const std::vector<std::string_view>& fields) = 0;
  /// To be called after the last row, and before anything below.
  virtual void finish() = 0;
  virtual int64_t size() const = 0;
  virtual Sample sample(int64_t index) const = 0;  ///< without its target
  /// Tokens of a text; nothing for numbers.
  virtual std::optional<int64_t> length(int64_t index) const = 0;
  /// Which of the rows that were added sample `index` is.
  virtual int64_t row(int64_t index) const = 0;
  /// `shape`, which tells of the target, with the inputs.
  virtual DataShape described(DataShape shape) const = 0;
  /// What it made of the file, beyond the columns' choice; empty when there is nothing to say.
  virtual std::string identity() const = 0;
};

/// Rows of a table, read once: numbers kept as float32, texts as tokens.
class Table : public Dataset, public LeavesOut, public KnowsLengths {
 public:
  /// `dialect` is what `auto` means. Throws DataError with file and line for a bad value, and Error
  /// (recipe) for a column that is not there.
  Table(const TableOptions& options, const DatasetContext& context, CsvDialect dialect);
  /// The same of `content`, which the options' path stands for in messages.
  Table(const TableOptions& options, const DatasetContext& context, CsvDialect dialect,
        SharedBytes content);

  int64_t size() const override { return inputs_->size(); }
  Sample sample(int64_t index) const override;
  DataShape shape() const override;
  std::string fingerprint() const override { return fingerprint_; }
  int64_t left_out() const override { return bad_.count(); }
  bool lengths_known() const override { return inputs_->length(0).has_value(); }
  int64_t length(int64_t index) const override { return inputs_->length(index).value(); }

 private:
  BadSamples bad_;
  std::unique_ptr<TableInputs> inputs_;
  Array targets_;  ///< [rows], i64 classes or f32 numbers; zeros where nobody asks for them
  int64_t classes_ = 0;
  std::vector<std::string> labels_;
  std::string fingerprint_;
};

}  // namespace accel
