// Records of texts, or of pairs of them, as samples: what `jsonl` and the columnar formats share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/dataset.h"
#include "core/input_path.h"
#include "core/schema.h"
#include "data/bad_samples.h"
#include "data/label_map.h"
#include "data/length_groups.h"
#include "data/table.h"
#include "data/text_columns.h"
#include "runner/formats/records.h"

namespace accel {

struct TextRecordOptions : TextColumnOptions {
  TextRecordOptions() { text = {"text"}; }

  InputPath path;
  std::string target;
  TargetType target_type = TargetType::kClasses;
  std::vector<std::string> labels;
  OnBadSample on_bad_sample;
};

/// Adds the options of TextRecordOptions but its path, which `Options` derives from.
template <class Options>
Schema<Options> with_record_columns(Schema<Options> schema) {
  return with_bad_samples(with_text_columns(
      std::move(schema)
          .field("target", static_cast<std::string Options::*>(&Options::target),
                 "Field of the target; empty: of each token, the one that follows it.")
          .field("target_type", static_cast<TargetType Options::*>(&Options::target_type),
                 "classes: labels to tell apart. number: for regression.")
          .field("labels", static_cast<std::vector<std::string> Options::*>(&Options::labels),
                 "Class labels in the order of their numbers; empty: those found, sorted. Labels "
                 "that are whole numbers from 0 number themselves.")));
}

/// Adds the path too; `path` says what it is.
template <class Options>
Schema<Options> with_text_records(Schema<Options> schema, const char* path) {
  return with_record_columns(
      std::move(schema)
          .field("path", static_cast<InputPath Options::*>(&Options::path), path)
          .required());
}

/// Where records come from.
class RecordSource {
 public:
  virtual ~RecordSource() = default;

  /// From the first record on; what is opened must not outlive the source.
  virtual std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const = 0;
  /// All bytes that the records come from.
  virtual FileContents contents() const = 0;
  /// What reads them: "jsonl".
  virtual std::string format() const = 0;
  /// How messages call its records.
  virtual const char* record_name() const { return "lines"; }
  /// Classes that the source itself names for a field, in the order of their numbers.
  virtual std::vector<std::string> class_names(const std::string& /*field*/) const { return {}; }
};

/// Records of a source, read once, as tokens.
class TextRecords : public Dataset, public LeavesOut, public KnowsLengths {
 public:
  /// Throws DataError with the place of what is wrong.
  TextRecords(TextRecordOptions options, const DatasetContext& context,
              std::unique_ptr<RecordSource> source);

  int64_t size() const override { return texts_.size(); }
  Sample sample(int64_t index) const override;
  DataShape shape() const override { return shape_; }
  std::string fingerprint() const override { return fingerprint_; }
  int64_t left_out() const override { return bad_.count(); }
  int64_t length(int64_t index) const override { return texts_.length(index); }

 private:
  using Fields = std::vector<std::string_view>;

  int64_t rows() const;
  std::vector<std::string> wanted() const;
  template <class Check, class Use>
  void each_record(BadSamples& bad, const Check& check, const Use& use) const;
  LabelMap labels() const;
  void take_target(const RecordReader& reader, const Fields& fields, const LabelMap& labels);

  TextRecordOptions options_;
  std::unique_ptr<RecordSource> source_;
  BadSamples bad_;
  TextColumns texts_;
  std::vector<int64_t> classes_;
  std::vector<float> numbers_;
  Array targets_;  ///< [rows()], i64 classes or f32 numbers; empty: the tokens that follow
  DataShape shape_;
  std::string fingerprint_;
};

}  // namespace accel
