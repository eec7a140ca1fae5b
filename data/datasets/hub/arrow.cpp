// Texts or text pairs in columns of Parquet and Arrow files. libaccel_arrow.so is loaded when a
// file is opened; a build may lack it.
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/hub/arrow_rows.h"
#include "data/datasets/text/streamed_records.h"
#include "data/datasets/text/text_records.h"
#include "data/store/streamed_files.h"

namespace accel {
namespace {

constexpr auto kParquetFile = ".parquet";

struct ArrowOptions : TextRecordOptions {
  std::string split;
};

struct ParquetOptions : StreamedRecordOptions {
  std::string split;
};

class ArrowSource final : public RecordSource {
 public:
  explicit ArrowSource(ArrowRows rows) : rows_(std::move(rows)) {}

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
std::unique_ptr<RecordSource> source_of(const std::string& path, const std::string& split,
                                        ArrowFormat format) {
  require_arrow(path);
  return arrow_source(arrow_files(path, split, format), format);
}

std::unique_ptr<RecordSource> streamed_source(const ParquetOptions& options) {
  const std::string& url = options.location.text;
  require_arrow(url);
  if (url.ends_with(kParquetFile) && !options.split.empty()) {
    throw DataError(text("'split' requires an S3 prefix, and '{}' names its files", url),
                    "leave out 'split'");
  }
  const ChooseFiles of_split = [&](std::vector<std::string> names) {
    return names_of_split(url, std::move(names), options.split);
  };
  return arrow_source(ArrowRows(stream_files(url, kParquetFile, options.streaming, of_split),
                                ArrowFormat::kParquet));
}

std::unique_ptr<RecordSource> source_of(const ParquetOptions& options) {
  if (options.location.is_url()) return streamed_source(options);
  return source_of(options.location.text, options.split, ArrowFormat::kParquet);
}

constexpr auto kSplit =
    "The split to read in a folder of several: train, test. Hub file names contain it.";

class Parquet final : public TextRecords {
 public:
  static constexpr auto kName = "parquet";
  static constexpr auto kSummary =
      "Parquet files: a text or a pair of texts per row, as tokens. Takes 'bootstrap.sh arrow'.";

  static Schema<ParquetOptions> schema() {
    return with_record_columns(with_streaming(
        Schema<ParquetOptions>().field("split", &ParquetOptions::split, kSplit),
        "The file, or a folder of files; or a URL of either: an S3 prefix, or files as in "
        "'.../train-{00000..00009}-of-00010.parquet'."));
  }

  Parquet(const ParquetOptions& options, const DatasetContext& context)
      : TextRecords(options.records(), context, source_of(options)) {}
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
      : TextRecords(options, context,
                    source_of(options.path.text, options.split, ArrowFormat::kIpc)) {}
};

const Register<Parquet> parquet;
const Register<Arrow> arrow;

}  // namespace

std::unique_ptr<RecordSource> arrow_source(const ArrowFiles& files, ArrowFormat format) {
  return arrow_source(ArrowRows(files, format));
}

std::unique_ptr<RecordSource> arrow_source(ArrowRows rows) {
  return std::make_unique<ArrowSource>(std::move(rows));
}

}  // namespace accel
