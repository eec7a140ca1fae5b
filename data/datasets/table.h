// Rows of delimited text as feature vectors and targets: the base of `csv` and `tsv`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/api/dataset.h"
#include "core/api/fitted_values.h"
#include "core/api/row_values.h"
#include "core/base/mapped_file.h"
#include "data/datasets/skipped_samples.h"
#include "data/datasets/table_columns.h"
#include "data/loader/curriculum.h"
#include "data/loader/epoch_order.h"
#include "formats/records/csv.h"

namespace accel {

/// Conversion of the input columns of a table.
class TableInputs {
 public:
  virtual ~TableInputs() = default;

  /// Adds the fields of the row that `reader` has just read.
  virtual void add(const CsvReader& reader, const std::vector<std::string_view>& fields) = 0;
  /// Must be called after the last row and before the functions below.
  virtual void finish() = 0;
  virtual int64_t size() const = 0;
  virtual Sample sample(int64_t index) const = 0;  ///< without target
  /// Length of a text in tokens; none for numbers.
  virtual std::optional<int64_t> length(int64_t index) const = 0;
  /// The row of sample `index`, among those added.
  virtual int64_t row(int64_t index) const = 0;
  /// `shape`, which describes the target, completed by the inputs.
  virtual DataShape described(DataShape shape) const = 0;
  /// Properties of the conversion beyond the choice of columns, for fingerprints; may be empty.
  virtual std::string identity() const = 0;
};

class FeatureTable;
class TableReading;

/// A table, read once: numbers as float32, texts as tokens.
class Table : public Dataset,
              public SkipsSamples,
              public KnowsLengths,
              public ClassLabels,
              public RowKeys,
              public RowNumbers,
              public FittedValues {
 public:
  /// `dialect` is the meaning of `auto`. Throws DataError with file and line for bad values, and
  /// Error (recipe) for a missing column.
  Table(const TableOptions& options, const DatasetContext& context, CsvDialect dialect);
  /// The same for `content`; the options' path names it in messages.
  Table(const TableOptions& options, const DatasetContext& context, CsvDialect dialect,
        SharedBytes content);
  ~Table() override;

  int64_t size() const override { return inputs_->size(); }
  Sample sample(int64_t index) const override;
  DataShape shape() const override;
  std::optional<Columns> columns() const override;
  std::string fingerprint() const override { return fingerprint_; }
  int64_t left_out() const override { return bad_.count(); }
  bool lengths_known() const override { return inputs_->length(0).has_value(); }
  int64_t length(int64_t index) const override { return inputs_->length(index).value(); }
  int64_t class_of(int64_t index) const override;
  std::vector<uint64_t> row_keys(const std::string& column) const override;
  std::vector<double> row_numbers(const std::string& column) const override;

  void fit(std::span<const int64_t> rows) override;
  std::string fitted() const override;
  void use_fitted(const std::string& values) override;
  std::vector<std::string> fitted_notes() const override;

 private:
  void encode();
  template <class Values>
  Values of_samples(const Values& of_rows) const;
  void set_target(const TableReading& reading, const LabelMap& labels,
                  const std::vector<std::string_view>& fields, size_t row);

  BadSamples bad_;
  std::unique_ptr<TableReading> reading_;
  std::unique_ptr<TableInputs> inputs_;
  FeatureTable* numbers_ = nullptr;  ///< of the inputs; null for texts
  /// i64 classes [rows], or f32 [rows] or [rows, numbers]; zeros if not requested.
  Array targets_;
  int64_t classes_ = 0;
  std::vector<std::string> labels_;
  bool labels_found_ = false;
  std::string fingerprint_;
};

}  // namespace accel
