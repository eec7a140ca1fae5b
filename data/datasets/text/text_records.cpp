#include "data/datasets/text/text_records.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/label_lists.h"
#include "data/datasets/rows.h"
#include "data/datasets/table_columns.h"
#include "data/datasets/table_fields.h"
#include "data/datasets/text/shard_files.h"

namespace accel {
namespace {

/// The part of the cache key beyond the content.
std::string reading_of(const TextRecordOptions& options, const std::string& format) {
  std::string out = accel::text("{} {},{}", format, options.text.front(), options.text.back());
  if (!options.on_bad_sample.most) return out;
  out.append(" skip ").append(options.target.text());
  out.append(1, ' ').append(EnumNames<TargetType>::kValues[size_t(options.target_type)].second);
  for (const std::string& label : options.labels) out.append(1, '\0').append(label);
  return out;
}

constexpr auto kDelimited = "delimited by ";

/// Whether `datasets` has no value here: missing values of delimited files as pandas reads them,
/// and NaN of a column of floats.
bool is_missing_label(std::string_view label, const std::string& format) {
  static const std::vector<std::string> words = default_na_values();
  if (format.starts_with(kDelimited))
    return std::find(words.begin(), words.end(), label) != words.end();
  return (format == "parquet" || format == "arrow") && label == "nan";
}

/// Without targets, and a text per sample, if the context does not request them.
TextRecordOptions for_context(TextRecordOptions options, const DatasetContext& context) {
  if (context.targets) return options;
  options.target.names.clear();
  options.pack = false;
  return options;
}

[[noreturn]] void refuse(const RecordReader& reader, const std::string& field,
                         std::string_view value, const std::string& problem,
                         const std::string& hint = "") {
  throw DataError(accel::text("{}: field '{}' holds '{}', {}", reader.location(), field,
                              value.substr(0, 60), problem),
                  hint);
}

}  // namespace

void check_packed_texts(const TextRecordOptions& options, const Node& node, Reading& reading) {
  if (!options.pack) return;
  const Span& where = node.find("pack")->where;
  if (!options.target.empty()) {
    reading.problems.error(where,
                           "'pack' is for tasks with an output for each token, and 'target' is of "
                           "a whole text",
                           "leave one of them out");
  }
  if (options.text.size() != 1) {
    reading.problems.error(where, "'pack' is for samples of one text",
                           "name one column in 'text', or leave 'pack' out");
  }
}

TextRecords::TextRecords(TextRecordOptions options, const DatasetContext& context,
                         std::unique_ptr<RecordSource> source)
    : options_(for_context(std::move(options), context)),
      source_(std::move(source)),
      bad_(options_.on_bad_sample, options_.path.text),
      texts_(options_, load_tokenizer(options_.tokenizer.text), source_->contents(),
             reading_of(options_, source_->format())) {
  const bool classes = options_.target_type == TargetType::kClasses;
  for (const std::string& field : options_.target.names) {
    if (!classes) source_->allow_list(field, options_.target_type == TargetType::kLabels);
  }
  const LabelMap names = labels();
  each_record(
      bad_,
      [&](const RecordReader& reader, const Fields& fields) { take_target(reader, fields, names); },
      [&](const RecordReader& reader, const Fields& fields, int64_t number) {
        if (bad_.skips()) accepted_.push_back(number);
        texts_.add({fields[0], fields[1], reader.location()}, bad_);
      });
  texts_.finish(bad_);
  bad_.tell(TextRecords::size());
  if (TextRecords::size() == 0) {
    throw DataError(accel::text("'{}' has no {}", options_.path.text, source_->record_name()));
  }
  make_targets();
  shape_ = texts_.described({.target_type = classes ? DType::kI64 : DType::kF32,
                             .classes = classes ? names.count() : 0,
                             .labels = names.names(),
                             .labels_found = names.is_found()});
  if (width_) shape_.target = {static_cast<int64_t>(*width_)};
  if (options_.target.empty()) shape_.target = shape_.input;
  if (options_.pack) pack();
  Fingerprint print;
  for (const FileContent& part : source_->contents()) print.add_content(part.bytes);
  print.add(texts_.identity()).add(options_.target.text());
  fingerprint_ = packing_ ? print.add("packed").text() : print.text();
}

void TextRecords::pack() {
  const int64_t most = shape_.input.front();
  packing_.emplace(texts_.size(), most, [this](int64_t i) { return texts_.length(i); });
  packing_->say_summary(options_.path.text, most);
  shape_.segments = packed_segments(most);
}

int64_t TextRecords::length(int64_t index) const {
  if (!packing_) return texts_.length(index);
  int64_t sum = 0;
  for (const int64_t member : packing_->members(index)) sum += texts_.length(member);
  return sum;
}

Sample TextRecords::sample(int64_t index) const {
  if (!packing_) return text_sample(index);
  return joined_texts(packing_->members(index),
                      [this](int64_t member) { return text_sample(member); });
}

Sample TextRecords::text_sample(int64_t index) const {
  Sample sample = texts_.sample(index);
  sample.target = targets_.empty() ? following(sample.input) : row_of(targets_, texts_.row(index));
  return sample;
}

/// Number of records read, including those without tokens.
int64_t TextRecords::rows() const {
  const size_t width = std::max<size_t>(width_.value_or(1), 1);
  return static_cast<int64_t>(std::max(classes_.size(), numbers_.size() / width));
}

std::vector<std::string> TextRecords::wanted() const {
  std::vector<std::string> fields = {options_.text.front(), options_.text.back()};
  const std::vector<std::string>& targets = options_.target.names;
  fields.insert(fields.end(), targets.begin(), targets.end());
  return fields;
}

void TextRecords::make_targets() {
  if (options_.target.empty()) return;
  if (options_.target_type == TargetType::kClasses) {
    targets_ = Array::of<int64_t>(DType::kI64, {rows()}, classes_);
    return;
  }
  Shape shape = {rows()};
  if (width_) shape.push_back(static_cast<int64_t>(*width_));
  targets_ = Array::of<float>(DType::kF32, shape, numbers_);
}

/// Calls `check` with the reader and the fields of each record, and `use` also with the record's
/// number. Records that cannot be read or fail the check go to `bad`.
template <class Check, class Use>
void TextRecords::each_record(BadSamples& bad, const Check& check, const Use& use) const {
  const std::unique_ptr<RecordReader> reader = source_->open(wanted());
  Fields fields;
  int64_t number = 0;
  for (bool more = true; more; ++number) {
    try {
      more = reader->next(fields);
      if (more) check(*reader, fields);
    } catch (const DataError& error) {
      bad.leave_out(error);
      continue;
    }
    if (more) use(*reader, fields, number);
  }
}

template <class Make>
auto TextRecords::of_column(const std::string& column, const Make& make) const {
  std::vector<std::string> fields = wanted();
  fields.push_back(column);
  const std::unique_ptr<RecordReader> reader = source_->open(fields);
  std::vector<decltype(make(*reader, std::string_view()))> of_records, of_samples;
  Fields values;
  int64_t number = 0;
  for (bool more = true; more; ++number) {
    const bool is_kept = !bad_.skips() || (of_records.size() < accepted_.size() &&
                                           accepted_[of_records.size()] == number);
    try {
      more = reader->next(values);
    } catch (const DataError&) {
      if (is_kept) throw;
      continue;
    }
    if (more && is_kept) of_records.push_back(make(*reader, values.back()));
  }
  for (int64_t i = 0; i < size(); ++i) {
    of_samples.push_back(of_records[static_cast<size_t>(texts_.row(i))]);
  }
  return of_samples;
}

std::vector<uint64_t> TextRecords::row_keys(const std::string& column) const {
  if (packing_) refuse_packed_groups(column, "texts");
  return of_column(column, [](const RecordReader&, std::string_view value) {
    return Fingerprint().add(value).value();
  });
}

std::vector<double> TextRecords::row_numbers(const std::string& column) const {
  if (packing_) {
    throw Error(ExitCode::kRecipe,
                accel::text("'curriculum' orders rows by '{}', but 'pack' puts several texts into "
                            "a sample",
                            column),
                "leave out 'pack' or 'curriculum'");
  }
  return of_column(column, [&](const RecordReader& reader, std::string_view value) {
    const std::optional<double> number = parse_field_number(value, '.');
    if (!number) refuse(reader, column, value, "not a number");
    return *number;
  });
}

LabelMap TextRecords::labels() const {
  if (options_.target.empty() || options_.target_type == TargetType::kNumber) return {};
  if (!options_.labels.empty()) return LabelMap::given(options_.labels, "labels");
  if (options_.target.is_list()) return LabelMap::given(options_.target.names, "target");
  const std::vector<std::string> named = source_->class_names(options_.target.front());
  if (!named.empty()) return LabelMap::given(named, "labels");
  TextSet seen;
  BadSamples counted_later(options_.on_bad_sample, options_.path.text);
  each_record(
      counted_later, [](const RecordReader&, const Fields&) {},
      [&](const RecordReader&, const Fields& fields, int64_t) {
        if (!lists_labels()) {
          seen.emplace(fields[2]);
        } else if (const auto labels = labels_in(fields[2])) {
          seen.insert(labels->begin(), labels->end());
        }
      });
  return LabelMap::found(seen);
}

/// 1 for each label of a list, the 0 or 1 of each column, or numbers.
std::vector<float> TextRecords::target_numbers(const RecordReader& reader, const Fields& fields,
                                               const LabelMap& labels) const {
  std::vector<float> out;
  if (lists_labels()) {
    const auto list = labels_in(fields[2]);
    if (!list) {
      refuse(reader, options_.target.front(), fields[2], "which is not a list of labels, each once",
             "lists with a 0 or 1 for each label are 'target_type: number', with 'task: "
             "multi_label_classification'");
    }
    out.resize(static_cast<size_t>(labels.count()));
    for (const std::string& label : *list) {
      const std::optional<int64_t> number = labels.find(label);
      if (!number)
        refuse(reader, options_.target.front(), label, "none of the labels of the recipe");
      out[static_cast<size_t>(*number)] = 1;
    }
    return out;
  }
  const bool flags = options_.target_type == TargetType::kLabels;
  for (size_t i = 0; i < options_.target.names.size(); ++i) {
    const std::string& field = options_.target.names[i];
    const std::string_view value = fields[2 + i];
    if (flags) {
      const std::optional<float> flag = label_flag(value);
      if (!flag) refuse(reader, field, value, "neither 0 nor 1");
      out.push_back(*flag);
      continue;
    }
    const auto numbers = numbers_in(value);
    if (!numbers) refuse(reader, field, value, "not a number");
    out.insert(out.end(), numbers->begin(), numbers->end());
  }
  return out;
}

void TextRecords::take_target(const RecordReader& reader, const Fields& fields,
                              const LabelMap& labels) {
  if (options_.target.empty()) return;
  if (options_.target_type == TargetType::kClasses) {
    if (options_.labels.empty() && is_missing_label(fields[2], source_->format())) {
      refuse(reader, options_.target.front(), fields[2], "a missing value, not a label",
             "leave such rows out, or list all 'labels', this one among them");
    }
    const std::optional<int64_t> label = labels.find(fields[2]);
    if (!label) {
      refuse(reader, options_.target.front(), fields[2], "none of the labels of the recipe");
    }
    classes_.push_back(*label);
    return;
  }
  const std::vector<float> numbers = target_numbers(reader, fields, labels);
  const bool is_list = lists_labels() || options_.target.is_list() || fields[2].starts_with('[');
  if (numbers_.empty() && is_list) width_ = numbers.size();
  if (numbers.size() != width_.value_or(1) || numbers.empty()) {
    refuse(reader, options_.target.front(), fields[2],
           accel::text("{} numbers, where the first has {}", numbers.size(), width_.value_or(1)));
  }
  numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
}

namespace {

constexpr auto kLineField = "text";

[[noreturn]] void no_column(const std::string& path, const std::string& field,
                            const std::vector<std::string>& columns) {
  throw DataError(accel::text("'{}' has no column '{}'", path, field),
                  accel::text("it has {}", quoted_list(columns)));
}

class DelimitedReader final : public RecordReader {
 public:
  DelimitedReader(SharedBytes file, const CsvDialect& dialect, const std::string& path,
                  const std::vector<std::string>& wanted)
      : file_(std::move(file)), reader_(file_.view, dialect, path) {
    std::vector<std::string_view> header;
    reader_.next(header);
    const std::vector<std::string> columns(header.begin(), header.end());
    for (const std::string& field : wanted) {
      const auto found = std::find(columns.begin(), columns.end(), field);
      if (found == columns.end()) no_column(path, field, columns);
      places_.push_back(static_cast<size_t>(found - columns.begin()));
    }
  }

  bool next(std::vector<std::string_view>& fields) override {
    if (!reader_.next(all_)) return false;
    fields.clear();
    for (const size_t place : places_) fields.push_back(all_[place]);
    return true;
  }
  std::string location() const override { return reader_.location(); }

 private:
  SharedBytes file_;
  CsvReader reader_;
  std::vector<size_t> places_;
  std::vector<std::string_view> all_;
};

class DelimitedSource final : public RecordSource {
 public:
  DelimitedSource(RecordFile file, const CsvDialect& dialect)
      : file_(std::move(file)), dialect_(dialect) {}

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    return std::make_unique<DelimitedReader>(file_.open(), dialect_, file_.path(), wanted);
  }
  FileContents contents() const override { return file_.contents(); }
  std::string format() const override { return kDelimited + std::string(1, dialect_.delimiter); }

 private:
  RecordFile file_;
  CsvDialect dialect_;
};

class LineReader final : public RecordReader {
 public:
  LineReader(SharedBytes file, std::string path, size_t fields)
      : file_(std::move(file)),
        text_(reinterpret_cast<const char*>(file_.view.data()), file_.view.size()),
        path_(std::move(path)),
        fields_(fields) {}

  bool next(std::vector<std::string_view>& fields) override {
    while (at_ < text_.size()) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      at_ = end + 1;
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.find_first_not_of(" \t") == line.npos) continue;
      fields.assign(fields_, line);
      return true;
    }
    return false;
  }
  std::string location() const override { return path_ + ":" + std::to_string(line_); }

 private:
  SharedBytes file_;
  std::string_view text_;
  std::string path_;
  size_t fields_;
  size_t at_ = 0;
  int64_t line_ = 0;
};

class LineSource final : public RecordSource {
 public:
  explicit LineSource(RecordFile file) : file_(std::move(file)) {}

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    for (const std::string& field : wanted) {
      if (field != kLineField) no_column(file_.path(), field, {kLineField});
    }
    return std::make_unique<LineReader>(file_.open(), file_.path(), wanted.size());
  }
  FileContents contents() const override { return file_.contents(); }
  std::string format() const override { return "lines"; }

 private:
  RecordFile file_;
};

using Sources = std::vector<std::unique_ptr<RecordSource>>;

class ChainedSource final : public RecordSource {
 public:
  explicit ChainedSource(Sources sources) : sources_(std::move(sources)) {}

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    return std::make_unique<ChainedReader>(
        sources_.size(), [this, wanted](size_t i) { return sources_[i]->open(wanted); });
  }
  FileContents contents() const override {
    FileContents all;
    for (const auto& source : sources_) {
      for (const auto& part : source->contents()) all.push_back(part);
    }
    return all;
  }
  void allow_list(const std::string& field, bool named) override {
    for (const auto& source : sources_) source->allow_list(field, named);
  }
  std::string format() const override { return sources_.front()->format(); }
  const char* record_name() const override { return sources_.front()->record_name(); }
  std::vector<std::string> class_names(const std::string& field) const override {
    return sources_.front()->class_names(field);
  }

 private:
  Sources sources_;
};

}  // namespace

std::unique_ptr<RecordSource> delimited_source(const std::string& path, CsvDialect dialect) {
  return std::make_unique<DelimitedSource>(RecordFile(path, RecordFile::Content::kText), dialect);
}

std::unique_ptr<RecordSource> lines_source(const std::string& path) {
  return std::make_unique<LineSource>(RecordFile(path, RecordFile::Content::kText));
}

namespace {

std::optional<CsvDialect> dialect_of(const std::string& extension) {
  if (extension == ".csv") return CsvDialect{.delimiter = ',', .quoting = true};
  if (extension == ".tsv") return CsvDialect{.delimiter = '\t', .quoting = true};
  return std::nullopt;
}

}  // namespace

std::unique_ptr<RecordSource> record_source_of(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension();
  if (const auto dialect = dialect_of(extension)) return delimited_source(path, *dialect);
  if (extension == ".parquet") return arrow_source({{path}, {}}, ArrowFormat::kParquet);
  if (extension == ".arrow") return arrow_source({{path}, {}}, ArrowFormat::kIpc);
  return extension == ".txt" ? lines_source(path) : json_lines_source(path);
}

std::unique_ptr<RecordSource> streamed_source_of(const std::shared_ptr<StreamedObjects>& objects) {
  const std::string extension = std::filesystem::path(objects->url_of(0)).extension();
  if (extension == ".parquet") return arrow_source(ArrowRows(objects, ArrowFormat::kParquet));
  if (extension == ".arrow") return arrow_source(ArrowRows(objects, ArrowFormat::kIpc));
  const auto files = std::make_shared<const ShardFiles>(objects);
  const auto dialect = dialect_of(extension);
  Sources sources;
  for (size_t i = 0; i < files->count(); ++i) {
    if (dialect) {
      sources.push_back(std::make_unique<DelimitedSource>(
          RecordFile(files, i, RecordFile::Content::kText), *dialect));
    } else if (extension == ".txt") {
      sources.push_back(
          std::make_unique<LineSource>(RecordFile(files, i, RecordFile::Content::kText)));
    } else {
      sources.push_back(json_lines_source(RecordFile(files, i, RecordFile::Content::kBytes)));
    }
  }
  return chained_source(std::move(sources));
}

std::unique_ptr<RecordSource> chained_source(Sources sources) {
  return std::make_unique<ChainedSource>(std::move(sources));
}

}  // namespace accel
