// Texts or text pairs in WebDataset archives.
#include "formats/records/webdataset.h"
#include "core/base/text.h"

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/recipe/registry.h"
#include "data/datasets/text/text_records.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct Archive {
  std::string path;
  SharedBytes bytes;
};

class WebdatasetSource final : public RecordSource {
 public:
  explicit WebdatasetSource(const std::string& path) {
    std::vector<std::string> paths;
    if (fs::is_directory(path)) {
      for (const auto& entry : fs::directory_iterator(path)) {
        if (entry.path().extension() == ".tar") paths.push_back(entry.path().string());
      }
      if (paths.empty()) throw DataError(accel::text("no '*.tar' files in '{}'", path));
      std::sort(paths.begin(), paths.end());
    } else {
      paths.push_back(path);
    }
    for (const std::string& file : paths) archives_.push_back({file, map_file(file)});
  }

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    return std::make_unique<ChainedReader>(archives_.size(), [this, wanted](size_t i) {
      try {
        return std::make_unique<WebdatasetReader>(archives_[i].bytes.view, wanted,
                                                  archives_[i].path);
      } catch (const DataError& error) {  // the error is not of a single sample
        throw Error(ExitCode::kData, error.what(), error.hint());
      }
    });
  }
  FileContents contents() const override {
    FileContents all;
    for (const Archive& archive : archives_) all.push_back(archive.bytes.view);
    return all;
  }
  std::string format() const override { return "webdataset"; }
  const char* record_name() const override { return "samples"; }

 private:
  std::vector<Archive> archives_;
};

struct WebdatasetOptions : TextRecordOptions {
  WebdatasetOptions() { text = {"txt"}; }
};

class Webdataset final : public TextRecords {
 public:
  static constexpr auto kName = "webdataset";
  static constexpr auto kSummary =
      "WebDataset's .tar archives: a text or a pair of texts per sample, as tokens.";

  static Schema<WebdatasetOptions> schema() {
    return with_text_records(Schema<WebdatasetOptions>(),
                             "The .tar, or a folder of them, read by name.");
  }

  Webdataset(const WebdatasetOptions& options, const DatasetContext& context)
      : TextRecords(options, context, std::make_unique<WebdatasetSource>(options.path.text)) {}
};

const Register<Webdataset> webdataset;

}  // namespace
}  // namespace accel
