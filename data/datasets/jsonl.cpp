// Texts or text pairs in JSON Lines.
#include "formats/records/jsonl.h"

#include <set>

#include "core/base/mapped_file.h"
#include "core/recipe/registry.h"
#include "data/datasets/text/shard_files.h"
#include "data/datasets/text/text_records.h"

namespace accel {
namespace {

/// Releases the pages of the file behind the read position.
class PassingReader final : public RecordReader {
 public:
  PassingReader(SharedBytes file, const std::vector<std::string>& wanted, const std::string& path,
                const std::set<std::string>& lists)
      : file_(std::move(file)), reader_(file_.view, wanted, path, lists) {}

  bool next(std::vector<std::string_view>& fields) override {
    constexpr size_t kKept = size_t{16} << 20;
    if (reader_.offset() - passed_ > kKept) {
      forget_pages(file_, file_.view.subspan(passed_, reader_.offset() - passed_));
      passed_ = reader_.offset();
    }
    return reader_.next(fields);
  }
  std::string location() const override { return reader_.location(); }

 private:
  SharedBytes file_;
  JsonlReader reader_;
  size_t passed_ = 0;
};

class JsonLines final : public RecordSource {
 public:
  explicit JsonLines(RecordFile file) : file_(std::move(file)) {}

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    return std::make_unique<PassingReader>(file_.open(), wanted, file_.path(), lists_);
  }
  void allow_list(const std::string& field, bool /*named*/) override { lists_.insert(field); }
  FileContents contents() const override { return file_.contents(); }
  std::string format() const override { return "jsonl"; }

 private:
  RecordFile file_;
  std::set<std::string> lists_;
};

struct JsonlOptions : TextRecordOptions {
  InputFile file;

  /// The options of record datasets.
  TextRecordOptions records() const {
    TextRecordOptions out = *this;
    out.path = file;
    return out;
  }
};

class Jsonl final : public TextRecords {
 public:
  static constexpr auto kName = "jsonl";
  static constexpr const char* kHintFor[] = {"json"};
  static constexpr auto kSummary = "JSON Lines: a text or a pair of texts per line, as tokens.";

  static Schema<JsonlOptions> schema() {
    return with_record_columns(Schema<JsonlOptions>()
                                   .field("path", &JsonlOptions::file,
                                          "The file: an object a line, or an array of objects.")
                                   .required());
  }

  Jsonl(const JsonlOptions& options, const DatasetContext& context)
      : TextRecords(options.records(), context, json_lines_source(options.file.text)) {}
};

const Register<Jsonl> jsonl;

}  // namespace

std::unique_ptr<RecordSource> json_lines_source(const std::string& path) {
  return json_lines_source(RecordFile(path, RecordFile::Content::kBytes));
}

std::unique_ptr<RecordSource> json_lines_source(const RecordFile& file) {
  return std::make_unique<JsonLines>(file);
}

}  // namespace accel
