// Datasets of records with text fields, and their record sources.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "core/api/input_path.h"
#include "core/api/row_values.h"
#include "core/recipe/schema.h"
#include "data/datasets/hub/arrow_rows.h"
#include "data/datasets/label_map.h"
#include "data/datasets/skipped_samples.h"
#include "data/datasets/table_columns.h"
#include "data/datasets/text/text_columns.h"
#include "data/loader/curriculum.h"
#include "data/loader/epoch_order.h"
#include "formats/arrow/arrow_records.h"
#include "formats/records/csv.h"
#include "formats/records/records.h"

namespace accel {

struct TextRecordOptions : TextColumnOptions {
  TextRecordOptions() { text = {"text"}; }

  InputPath path;
  TargetColumns target;
  TargetType target_type = TargetType::kClasses;
  std::vector<std::string> labels;
  bool pack = false;
  OnBadSample on_bad_sample;
};

/// Reports `pack` of samples that cannot be packed.
void check_packed_texts(const TextRecordOptions& options, const Node& node, Reading& reading);

/// Adds TextRecordOptions without the path, a base of `Options`, to a schema.
template <class Options>
Schema<Options> with_record_columns(Schema<Options> schema) {
  return with_bad_samples(with_text_columns(
      std::move(schema)
          .field("target", static_cast<TargetColumns Options::*>(&Options::target),
                 "Field of the target, or several for 'target_type' number or labels; empty: of "
                 "each token, the one that follows it.")
          .field("target_type", static_cast<TargetType Options::*>(&Options::target_type),
                 kTargetTypeHelp)
          .field("labels", static_cast<std::vector<std::string> Options::*>(&Options::labels),
                 "Class labels in the order of their numbers; empty: the labels found, sorted. "
                 "Labels that are integers from 0 are their own numbers.")
          .field("pack", static_cast<bool Options::*>(&Options::pack),
                 "Packs several texts into a sample of up to max_length tokens, for the tasks "
                 "masked_lm and causal_lm. The model separates them in attention. Prediction does "
                 "not pack.")
          .hint_for({"packing", "sample_packing"})
          .check([](const Options& options, const Node& node, Reading& reading) {
            check_packed_texts(options, node, reading);
            check_target(options.target, options.target_type, node, reading);
            check_text_has_no_target(options.text, options.target, node, reading);
          })));
}

/// Adds the path too; `path` documents it.
template <class Options>
Schema<Options> with_text_records(Schema<Options> schema, const char* path) {
  return with_record_columns(
      std::move(schema)
          .field("path", static_cast<InputPath Options::*>(&Options::path), path)
          .required());
}

/// A source of records.
class RecordSource {
 public:
  virtual ~RecordSource() = default;

  /// Starts at the first record; the source must outlive the reader.
  virtual std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const = 0;
  /// Lets this field hold a list, which its text is then as JSON; `named`: with the names of
  /// classes in place of their numbers. Only sources with lists need it.
  virtual void allow_list(const std::string& /*field*/, bool /*named*/) {}
  /// The bytes of all files.
  virtual FileContents contents() const = 0;
  /// The format's name: "jsonl".
  virtual std::string format() const = 0;
  /// The plural noun for records in messages.
  virtual const char* record_name() const { return "lines"; }
  /// Class names that the source defines for a field, by number.
  virtual std::vector<std::string> class_names(const std::string& /*field*/) const { return {}; }
};

class RecordFile;

/// A record dataset, read once and tokenized.
class TextRecords : public Dataset,
                    public SkipsSamples,
                    public KnowsLengths,
                    public ClassLabels,
                    public RowKeys,
                    public RowNumbers {
 public:
  /// Throws DataError with the location of the error.
  TextRecords(TextRecordOptions options, const DatasetContext& context,
              std::unique_ptr<RecordSource> source);

  int64_t size() const override { return packing_ ? packing_->size() : texts_.size(); }
  Sample sample(int64_t index) const override;
  DataShape shape() const override { return shape_; }
  std::string fingerprint() const override { return fingerprint_; }
  int64_t left_out() const override { return bad_.count(); }
  int64_t length(int64_t index) const override;
  int64_t class_of(int64_t index) const override {
    return classes_[static_cast<size_t>(texts_.row(index))];
  }
  std::vector<uint64_t> row_keys(const std::string& column) const override;
  std::vector<double> row_numbers(const std::string& column) const override;

 private:
  using Fields = std::vector<std::string_view>;

  /// Of one record.
  Sample text_sample(int64_t index) const;
  void pack();
  int64_t rows() const;
  std::vector<std::string> wanted() const;
  /// For each sample what `make` gives for the value in `column`.
  template <class Make>
  auto of_column(const std::string& column, const Make& make) const;
  template <class Check, class Use>
  void each_record(BadSamples& bad, const Check& check, const Use& use) const;
  LabelMap labels() const;
  void take_target(const RecordReader& reader, const Fields& fields, const LabelMap& labels);
  bool lists_labels() const {
    return options_.target_type == TargetType::kLabels && !options_.target.is_list();
  }
  std::vector<float> target_numbers(const RecordReader& reader, const Fields& fields,
                                    const LabelMap& labels) const;
  void make_targets();

  TextRecordOptions options_;
  std::unique_ptr<RecordSource> source_;
  BadSamples bad_;
  TextColumns texts_;
  std::vector<int64_t> classes_;
  std::vector<float> numbers_;      ///< `width_` of each row
  std::optional<size_t> width_;     ///< of a list of numbers or labels; none: one number
  std::vector<int64_t> accepted_;   ///< number of each record among all, if records may be skipped
  Array targets_;                   ///< i64 [rows()], or f32 [rows()] or [rows(), width_], or empty
  std::optional<Packing> packing_;  ///< of texts_; none: one per sample
  DataShape shape_;
  std::string fingerprint_;
};

/// One JSON object per line.
std::unique_ptr<RecordSource> json_lines_source(const std::string& path);
std::unique_ptr<RecordSource> json_lines_source(const RecordFile& file);

/// The concatenated rows of files of one format. Throws DataError if this build lacks
/// libaccel_arrow.so.
std::unique_ptr<RecordSource> arrow_source(const ArrowFiles& files, ArrowFormat format);
std::unique_ptr<RecordSource> arrow_source(ArrowRows rows);

/// Delimited records; the first one names the columns.
std::unique_ptr<RecordSource> delimited_source(const std::string& path, CsvDialect dialect);

/// Non-blank lines, as the field `text`.
std::unique_ptr<RecordSource> lines_source(const std::string& path);

/// The source of a file by its extension: .csv, .tsv, .txt, .parquet, .arrow, or else JSON Lines.
std::unique_ptr<RecordSource> record_source_of(const std::string& path);
/// The same of streamed objects, all of one extension.
std::unique_ptr<RecordSource> streamed_source_of(const std::shared_ptr<StreamedObjects>& objects);

/// Concatenates at least one source; all have the same kind.
std::unique_ptr<RecordSource> chained_source(std::vector<std::unique_ptr<RecordSource>> sources);

}  // namespace accel
