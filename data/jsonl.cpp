// Texts, or pairs of them, as lines of JSON.
#include <algorithm>
#include <string>
#include <utility>

#include "core/dataset.h"
#include "core/error.h"
#include "core/registry.h"
#include "data/bad_samples.h"
#include "data/fingerprint.h"
#include "data/label_map.h"
#include "data/length_groups.h"
#include "data/rows.h"
#include "data/table.h"
#include "data/table_columns.h"
#include "data/text_columns.h"
#include "runner/formats/jsonl.h"
#include "runner/formats/mapped_file.h"

namespace accel {
namespace {

struct JsonlOptions : TextColumnOptions {
  JsonlOptions() { text = {"text"}; }

  FilePath path;
  std::string target;
  TargetType target_type = TargetType::kClasses;
  std::vector<std::string> labels;
  OnBadSample on_bad_sample;
};

/// What else than the content decides on the texts that are kept.
std::string reading_of(const JsonlOptions& options) {
  std::string out = "jsonl " + options.text.front() + "," + options.text.back();
  if (!options.on_bad_sample.most) return out;
  out.append(" skip ").append(options.target);
  out.append(options.target_type == TargetType::kClasses ? " classes" : " number");
  for (const std::string& label : options.labels) out.append(1, '\0').append(label);
  return out;
}

/// Nobody asks what the targets are.
JsonlOptions without_target(JsonlOptions options) {
  options.target.clear();
  return options;
}

class Jsonl final : public Dataset, public LeavesOut, public KnowsLengths {
 public:
  static constexpr auto kName = "jsonl";
  static constexpr auto kSummary = "JSON Lines: a text or a pair of texts per line, as tokens.";

  static Schema<JsonlOptions> schema() {
    return with_bad_samples(with_text_columns(
        Schema<JsonlOptions>()
            .field("path", &JsonlOptions::path, "The file, an object a line.")
            .required()
            .field("target", &JsonlOptions::target,
                   "Field of the target; empty: of each token, the one that follows it.")
            .field("target_type", &JsonlOptions::target_type,
                   "classes: labels to tell apart. number: for regression.")
            .field("labels", &JsonlOptions::labels,
                   "Class labels in the order of their numbers; empty: those found, sorted. Labels "
                   "that are whole numbers from 0 number themselves.")));
  }

  Jsonl(const JsonlOptions& given, const DatasetContext& context)
      : Jsonl(context.targets ? given : without_target(given)) {}

  int64_t size() const override { return texts_.size(); }
  Sample sample(int64_t index) const override {
    Sample sample = texts_.sample(index);
    sample.target =
        targets_.empty() ? following(sample.input) : row_of(targets_, texts_.row(index));
    return sample;
  }
  DataShape shape() const override { return shape_; }
  std::string fingerprint() const override { return fingerprint_; }
  int64_t left_out() const override { return bad_.count(); }
  int64_t length(int64_t index) const override { return texts_.length(index); }

 private:
  using Fields = std::vector<std::string_view>;

  explicit Jsonl(const JsonlOptions& options)
      : path_(options.path.text),
        file_(map_file(path_)),
        bad_(options.on_bad_sample, path_),
        texts_(options, load_tokenizer(options.tokenizer.text), file_.view, reading_of(options)) {
    const bool classes = options.target_type == TargetType::kClasses;
    LabelMap labels;
    if (!options.target.empty() && classes) labels = labels_of(options);
    read(options, labels);
    texts_.finish(bad_);
    bad_.tell(size());
    if (size() == 0) throw DataError("'" + path_ + "' has no lines");
    if (!options.target.empty() && classes) {
      targets_ = Array::of<int64_t>(DType::kI64, {rows()}, classes_);
    } else if (!options.target.empty()) {
      targets_ = Array::of<float>(DType::kF32, {rows()}, numbers_);
    }
    shape_ = texts_.described({.target_type = classes ? DType::kI64 : DType::kF32,
                               .classes = labels.count(),
                               .labels = labels.names()});
    if (options.target.empty()) shape_.target = shape_.input;
    fingerprint_ =
        Fingerprint().add_content(file_.view).add(texts_.identity()).add(options.target).text();
  }

  /// Lines that were read, those without tokens included.
  int64_t rows() const { return static_cast<int64_t>(std::max(classes_.size(), numbers_.size())); }

  static std::vector<std::string> wanted(const JsonlOptions& options) {
    std::vector<std::string> fields = {options.text.front(), options.text.back()};
    if (!options.target.empty()) fields.push_back(options.target);
    return fields;
  }

  /// Calls `check` and then `use` with the reader and the fields of each line. One that cannot be
  /// read, or that `check` throws for, goes to `bad`.
  template <class Check, class Use>
  void each_line(const JsonlOptions& options, BadSamples& bad, const Check& check,
                 const Use& use) const {
    JsonlReader reader(file_.view, wanted(options), path_);
    std::vector<std::string_view> fields;
    for (bool more = true; more;) {
      try {
        more = reader.next(fields);
        if (more) check(reader, fields);
      } catch (const DataError& error) {
        bad.leave_out(error);
        continue;
      }
      if (more) use(reader, fields);
    }
  }

  LabelMap labels_of(const JsonlOptions& options) const {
    if (!options.labels.empty()) return LabelMap::given(options.labels, "labels");
    TextSet seen;
    BadSamples counted_later(options.on_bad_sample, path_);
    each_line(
        options, counted_later, [](const JsonlReader&, const Fields&) {},
        [&](const JsonlReader&, const Fields& fields) { seen.emplace(fields[2]); });
    return LabelMap::found(seen);
  }

  void read(const JsonlOptions& options, const LabelMap& labels) {
    const auto take_target = [&](const JsonlReader& reader, const Fields& fields) {
      if (options.target.empty()) return;
      if (options.target_type == TargetType::kClasses) {
        const std::optional<int64_t> label = labels.find(fields[2]);
        if (!label) refuse(reader, options.target, fields[2], "none of the labels of the recipe");
        classes_.push_back(*label);
      } else {
        const std::optional<float> number = field_number(fields[2]);
        if (!number) refuse(reader, options.target, fields[2], "not a number");
        numbers_.push_back(*number);
      }
    };
    each_line(options, bad_, take_target, [&](const JsonlReader& reader, const Fields& fields) {
      texts_.add({fields[0], fields[1], reader.place()}, bad_);
    });
  }

  [[noreturn]] static void refuse(const JsonlReader& reader, const std::string& field,
                                  std::string_view value, const std::string& problem) {
    throw DataError(reader.place() + ": field '" + field + "' holds '" +
                    std::string(value.substr(0, 60)) + "', " + problem);
  }

  std::string path_;
  SharedBytes file_;
  BadSamples bad_;
  TextColumns texts_;
  std::vector<int64_t> classes_;
  std::vector<float> numbers_;
  Array targets_;  // [rows()], i64 classes or f32 numbers; empty: the tokens that follow
  DataShape shape_;
  std::string fingerprint_;
};

const Register<Jsonl> jsonl;

}  // namespace
}  // namespace accel
