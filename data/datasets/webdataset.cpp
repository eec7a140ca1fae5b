// Texts or text pairs in WebDataset archives.
#include "formats/records/webdataset.h"

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/text/shard_files.h"
#include "data/datasets/text/streamed_records.h"
#include "data/datasets/text/text_records.h"
#include "data/store/streamed_files.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr auto kTar = ".tar";

ShardFiles archives_of_folder(const std::string& path) {
  std::vector<std::string> paths;
  if (fs::is_directory(path)) {
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() == kTar) paths.push_back(entry.path().string());
    }
    if (paths.empty()) throw DataError(accel::text("no '*.tar' files in '{}'", path));
    std::sort(paths.begin(), paths.end());
  } else {
    paths.push_back(path);
  }
  return ShardFiles(paths);
}

/// A reader that owns the archive's bytes.
class ArchiveReader final : public RecordReader {
 public:
  ArchiveReader(SharedBytes bytes, const std::vector<std::string>& wanted, const std::string& path)
      : bytes_(std::move(bytes)), reader_(bytes_.view, wanted, path) {}

  bool next(std::vector<std::string_view>& fields) override { return reader_.next(fields); }
  std::string location() const override { return reader_.location(); }

 private:
  SharedBytes bytes_;
  WebdatasetReader reader_;
};

class WebdatasetSource final : public RecordSource {
 public:
  explicit WebdatasetSource(const StreamedRecordOptions& options)
      : archives_(options.location.is_url()
                      ? ShardFiles(stream_files(options.location.text, kTar, options.streaming))
                      : archives_of_folder(options.location.text)) {}

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    return std::make_unique<ChainedReader>(archives_.count(), [this, wanted](size_t i) {
      try {
        return std::make_unique<ArchiveReader>(archives_.open(i), wanted, archives_.path(i));
      } catch (const DataError& error) {  // the error is not of a single sample
        throw Error(ExitCode::kData, error.what(), error.hint());
      }
    });
  }
  FileContents contents() const override { return archives_.contents(); }
  std::string format() const override { return "webdataset"; }
  const char* record_name() const override { return "samples"; }

 private:
  ShardFiles archives_;
};

struct WebdatasetOptions : StreamedRecordOptions {
  WebdatasetOptions() { text = {"txt"}; }
};

class Webdataset final : public TextRecords {
 public:
  static constexpr auto kName = "webdataset";
  static constexpr auto kSummary =
      "WebDataset's .tar archives: a text or a pair of texts per sample, as tokens.";

  static Schema<WebdatasetOptions> schema() {
    return with_record_columns(with_streaming(
        Schema<WebdatasetOptions>(),
        "The .tar, or a folder of them, read by name; or a URL of either: an S3 prefix, or "
        "archives as in '.../shard-{000000..000099}.tar'."));
  }

  Webdataset(const WebdatasetOptions& options, const DatasetContext& context)
      : TextRecords(options.records(), context, std::make_unique<WebdatasetSource>(options)) {}
};

const Register<Webdataset> webdataset;

}  // namespace
}  // namespace accel
