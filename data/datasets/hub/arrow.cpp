// Texts or text pairs in columns of Parquet and Arrow files. libaccel_arrow.so is loaded when a
// file is opened; a build may lack it.
#include <cstring>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/hub/arrow_rows.h"
#include "data/datasets/text/text_records.h"

namespace accel {
namespace {

struct ArrowOptions : TextRecordOptions {
  std::string split;
};

/// Writes lists of integers as JSON.
class ListTexts final : public RecordReader {
 public:
  ListTexts(std::unique_ptr<RecordReader> rows, std::vector<bool> is_list)
      : rows_(std::move(rows)), is_list_(std::move(is_list)), texts_(is_list_.size()) {}

  bool next(std::vector<std::string_view>& fields) override {
    if (!rows_->next(fields)) return false;
    for (size_t i = 0; i < fields.size(); ++i) {
      if (!is_list_[i]) continue;
      std::vector<int64_t> numbers(fields[i].size() / sizeof(int64_t));
      std::memcpy(numbers.data(), fields[i].data(), numbers.size() * sizeof(int64_t));
      texts_[i] = "[" + joined(numbers, ",", [](int64_t x) { return std::to_string(x); }) + "]";
      fields[i] = texts_[i];
    }
    return true;
  }
  std::string location() const override { return rows_->location(); }

 private:
  std::unique_ptr<RecordReader> rows_;
  std::vector<bool> is_list_;
  std::vector<std::string> texts_;
};

class ArrowSource final : public RecordSource {
 public:
  ArrowSource(const ArrowFiles& files, ArrowFormat format) : rows_(files, format) {}

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    if (lists_.empty()) return rows_.open(wanted);
    std::vector<ArrowField> kinds;
    std::vector<bool> is_list;
    for (const std::string& field : wanted) {
      is_list.push_back(lists_.contains(field));
      kinds.push_back(is_list.back() ? ArrowField::kNumbers : ArrowField::kText);
    }
    return std::make_unique<ListTexts>(rows_.open(wanted, kinds), std::move(is_list));
  }
  void allow_list(const std::string& field) override {
    for (const ArrowColumn& column : rows_.columns()) {
      if (column.name == field && column.value == ArrowColumn::Value::kIntegers) {
        lists_.insert(field);
      }
    }
  }
  FileContents contents() const override { return rows_.contents(); }
  std::string format() const override {
    return rows_.format() == ArrowFormat::kParquet ? "parquet" : "arrow";
  }
  const char* record_name() const override { return "rows"; }
  std::vector<std::string> class_names(const std::string& field) const override {
    return lists_.contains(field) ? std::vector<std::string>() : rows_.class_names(field);
  }

 private:
  ArrowRows rows_;
  std::set<std::string> lists_;
};

/// A missing libaccel_arrow.so is reported before other errors.
std::unique_ptr<RecordSource> source_of(const ArrowOptions& options, ArrowFormat format) {
  require_arrow(options.path.text);
  return arrow_source(arrow_files(options.path.text, options.split, format), format);
}

constexpr auto kSplit =
    "The split to read in a folder of several: train, test. Hub file names contain it.";

class Parquet final : public TextRecords {
 public:
  static constexpr auto kName = "parquet";
  static constexpr auto kSummary =
      "Parquet files: a text or a pair of texts per row, as tokens. Takes 'bootstrap.sh arrow'.";

  static Schema<ArrowOptions> schema() {
    return with_text_records(Schema<ArrowOptions>().field("split", &ArrowOptions::split, kSplit),
                             "The file, or a folder of files.");
  }

  Parquet(const ArrowOptions& options, const DatasetContext& context)
      : TextRecords(options, context, source_of(options, ArrowFormat::kParquet)) {}
};

class Arrow final : public TextRecords {
 public:
  static constexpr auto kName = "arrow";
  static constexpr auto kSummary =
      "Arrow files, or a folder of Hugging Face's save_to_disk: a text or a pair of texts per row.";

  static Schema<ArrowOptions> schema() {
    return with_text_records(Schema<ArrowOptions>().field("split", &ArrowOptions::split, kSplit),
                             "The file, or a folder of files or that save_to_disk wrote.");
  }

  Arrow(const ArrowOptions& options, const DatasetContext& context)
      : TextRecords(options, context, source_of(options, ArrowFormat::kIpc)) {}
};

const Register<Parquet> parquet;
const Register<Arrow> arrow;

}  // namespace

std::unique_ptr<RecordSource> arrow_source(const ArrowFiles& files, ArrowFormat format) {
  return std::make_unique<ArrowSource>(files, format);
}

}  // namespace accel
