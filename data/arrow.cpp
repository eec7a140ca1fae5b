// Texts, or pairs of them, in the columns of Parquet and Arrow files. Arrow itself is loaded when
// such a file is opened, and is not there in every build.
#include <dlfcn.h>

#include "core/registry.h"
#include "data/arrow_files.h"
#include "data/text_records.h"
#include "runner/formats/mapped_file.h"

namespace accel {
namespace {

constexpr auto kLibrary = "libaccel_arrow.so";

ArrowFunction load_arrow(const std::string& path) {
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library ? ::dlsym(library, kArrowSymbol) : nullptr;
  if (symbol) return reinterpret_cast<ArrowFunction>(symbol);
  throw DataError("'" + path + "' takes the part for Parquet and Arrow files, which is not here: " +
                      ::dlerror(),
                  "run 'tools/bootstrap.sh arrow' and build accel-run once more");
}

struct ArrowOptions : TextRecordOptions {
  std::string split;
};

struct ArrowFile {
  std::string path;
  SharedBytes bytes;
};

/// The rows of several files as those of one.
class ChainedRows final : public RecordReader {
 public:
  ChainedRows(ArrowFunction open, const std::vector<ArrowFile>& files, ArrowFormat format,
              std::vector<std::string> wanted)
      : open_(open), files_(files), format_(format), wanted_(std::move(wanted)) {
    open_next();
  }

  bool next(std::vector<std::string_view>& fields) override {
    while (!rows_->next(fields)) {
      if (at_ == files_.size()) return false;
      open_next();
    }
    return true;
  }
  std::string place() const override { return rows_->place(); }

 private:
  void open_next() {
    const ArrowFile& file = files_[at_++];
    open_({file.bytes.view, format_, file.path, wanted_}, rows_);
  }

  ArrowFunction open_;
  const std::vector<ArrowFile>& files_;
  ArrowFormat format_;
  std::vector<std::string> wanted_;
  size_t at_ = 0;
  std::unique_ptr<ArrowRecords> rows_;
};

class ArrowSource final : public RecordSource {
 public:
  ArrowSource(const ArrowOptions& options, ArrowFormat format)
      : open_(load_arrow(options.path.text)), format_(format) {
    for (const std::string& path : arrow_files(options.path.text, options.split, format)) {
      files_.push_back({path, map_file(path)});
    }
  }

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    return std::make_unique<ChainedRows>(open_, files_, format_, wanted);
  }
  FileContents contents() const override {
    FileContents all;
    for (const ArrowFile& file : files_) all.push_back(file.bytes.view);
    return all;
  }
  std::string format() const override {
    return format_ == ArrowFormat::kParquet ? "parquet" : "arrow";
  }
  const char* record_name() const override { return "rows"; }
  std::vector<std::string> class_names(const std::string& field) const override {
    std::unique_ptr<ArrowRecords> rows;
    open_({files_.front().bytes.view, format_, files_.front().path, {field}}, rows);
    return rows->class_names(field);
  }

 private:
  ArrowFunction open_;
  ArrowFormat format_;
  std::vector<ArrowFile> files_;
};

constexpr auto kSplit =
    "Of a folder of several splits, the one to read: train, test. The hub's names of files tell "
    "it.";

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
      : TextRecords(options, context,
                    std::make_unique<ArrowSource>(options, ArrowFormat::kParquet)) {}
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
      : TextRecords(options, context, std::make_unique<ArrowSource>(options, ArrowFormat::kIpc)) {}
};

const Register<Parquet> parquet;
const Register<Arrow> arrow;

}  // namespace
}  // namespace accel
