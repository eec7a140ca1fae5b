// Texts or text pairs in columns of Parquet and Arrow files. libaccel_arrow.so is loaded when a
// file is opened; a build may lack it.
#include <map>
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

class ArrowSource final : public RecordSource {
 public:
  ArrowSource(const ArrowFiles& files, ArrowFormat format) : rows_(files, format) {}

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    if (lists_.empty()) return rows_.open(wanted);
    std::vector<ArrowField> kinds;
    for (const std::string& field : wanted) kinds.push_back(kind_of(field));
    return rows_.open(wanted, kinds);
  }
  void allow_list(const std::string& field, bool named) override {
    for (const ArrowColumn& column : rows_.columns()) {
      const bool is_list = column.value == ArrowColumn::Value::kIntegers ||
                           column.value == ArrowColumn::Value::kTexts;
      if (column.name != field || !is_list) continue;
      lists_[field] = named ? ArrowField::kNames : ArrowField::kList;
    }
  }
  FileContents contents() const override { return rows_.contents(); }
  std::string format() const override {
    return rows_.format() == ArrowFormat::kParquet ? "parquet" : "arrow";
  }
  const char* record_name() const override { return "rows"; }
  std::vector<std::string> class_names(const std::string& field) const override {
    return rows_.class_names(field, kind_of(field));
  }

 private:
  ArrowField kind_of(const std::string& field) const {
    const auto list = lists_.find(field);
    return list == lists_.end() ? ArrowField::kText : list->second;
  }

  ArrowRows rows_;
  std::map<std::string, ArrowField> lists_;
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
