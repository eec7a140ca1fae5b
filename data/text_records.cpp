#include "data/text_records.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "data/fingerprint.h"
#include "data/rows.h"
#include "data/table_columns.h"

namespace accel {
namespace {

/// What else than the content decides on the texts that are kept.
std::string reading_of(const TextRecordOptions& options, const std::string& format) {
  std::string out = format + " " + options.text.front() + "," + options.text.back();
  if (!options.on_bad_sample.most) return out;
  out.append(" skip ").append(options.target);
  out.append(options.target_type == TargetType::kClasses ? " classes" : " number");
  for (const std::string& label : options.labels) out.append(1, '\0').append(label);
  return out;
}

/// Nobody may ask what the targets are.
TextRecordOptions for_context(TextRecordOptions options, const DatasetContext& context) {
  if (!context.targets) options.target.clear();
  return options;
}

[[noreturn]] void refuse(const RecordReader& reader, const std::string& field,
                         std::string_view value, const std::string& problem) {
  throw DataError(reader.place() + ": field '" + field + "' holds '" +
                  std::string(value.substr(0, 60)) + "', " + problem);
}

}  // namespace

TextRecords::TextRecords(TextRecordOptions options, const DatasetContext& context,
                         std::unique_ptr<RecordSource> source)
    : options_(for_context(std::move(options), context)),
      source_(std::move(source)),
      bad_(options_.on_bad_sample, options_.path.text),
      texts_(options_, load_tokenizer(options_.tokenizer.text), source_->contents(),
             reading_of(options_, source_->format())) {
  const bool classes = options_.target_type == TargetType::kClasses;
  const LabelMap names = labels();
  each_record(
      bad_,
      [&](const RecordReader& reader, const Fields& fields) { take_target(reader, fields, names); },
      [&](const RecordReader& reader, const Fields& fields) {
        texts_.add({fields[0], fields[1], reader.place()}, bad_);
      });
  texts_.finish(bad_);
  bad_.tell(size());
  if (size() == 0) {
    throw DataError("'" + options_.path.text + "' has no " + source_->record_name());
  }
  if (!options_.target.empty() && classes) {
    targets_ = Array::of<int64_t>(DType::kI64, {rows()}, classes_);
  } else if (!options_.target.empty()) {
    targets_ = Array::of<float>(DType::kF32, {rows()}, numbers_);
  }
  shape_ = texts_.described({.target_type = classes ? DType::kI64 : DType::kF32,
                             .classes = names.count(),
                             .labels = names.names()});
  if (options_.target.empty()) shape_.target = shape_.input;
  Fingerprint print;
  for (const auto& part : source_->contents()) print.add_content(part);
  fingerprint_ = print.add(texts_.identity()).add(options_.target).text();
}

Sample TextRecords::sample(int64_t index) const {
  Sample sample = texts_.sample(index);
  sample.target = targets_.empty() ? following(sample.input) : row_of(targets_, texts_.row(index));
  return sample;
}

/// Records that were read, those without tokens included.
int64_t TextRecords::rows() const {
  return static_cast<int64_t>(std::max(classes_.size(), numbers_.size()));
}

std::vector<std::string> TextRecords::wanted() const {
  std::vector<std::string> fields = {options_.text.front(), options_.text.back()};
  if (!options_.target.empty()) fields.push_back(options_.target);
  return fields;
}

/// Calls `check` and then `use` with the reader and the fields of each record. One that cannot be
/// read, or that `check` throws for, goes to `bad`.
template <class Check, class Use>
void TextRecords::each_record(BadSamples& bad, const Check& check, const Use& use) const {
  const std::unique_ptr<RecordReader> reader = source_->open(wanted());
  Fields fields;
  for (bool more = true; more;) {
    try {
      more = reader->next(fields);
      if (more) check(*reader, fields);
    } catch (const DataError& error) {
      bad.leave_out(error);
      continue;
    }
    if (more) use(*reader, fields);
  }
}

LabelMap TextRecords::labels() const {
  if (options_.target.empty() || options_.target_type == TargetType::kNumber) return {};
  if (!options_.labels.empty()) return LabelMap::given(options_.labels, "labels");
  const std::vector<std::string> named = source_->class_names(options_.target);
  if (!named.empty()) return LabelMap::given(named, "labels");
  TextSet seen;
  BadSamples counted_later(options_.on_bad_sample, options_.path.text);
  each_record(
      counted_later, [](const RecordReader&, const Fields&) {},
      [&](const RecordReader&, const Fields& fields) { seen.emplace(fields[2]); });
  return LabelMap::found(seen);
}

void TextRecords::take_target(const RecordReader& reader, const Fields& fields,
                              const LabelMap& labels) {
  if (options_.target.empty()) return;
  if (options_.target_type == TargetType::kClasses) {
    const std::optional<int64_t> label = labels.find(fields[2]);
    if (!label) refuse(reader, options_.target, fields[2], "none of the labels of the recipe");
    classes_.push_back(*label);
  } else {
    const std::optional<float> number = field_number(fields[2]);
    if (!number) refuse(reader, options_.target, fields[2], "not a number");
    numbers_.push_back(*number);
  }
}

}  // namespace accel
