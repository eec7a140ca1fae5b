// Texts, or pairs of them, in WebDataset's archives.
#include "runner/formats/webdataset.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/registry.h"
#include "data/text_records.h"
#include "runner/formats/mapped_file.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct Archive {
  std::string path;
  SharedBytes bytes;
};

/// The samples of all archives as those of one.
class ChainedArchives final : public RecordReader {
 public:
  ChainedArchives(const std::vector<Archive>& archives, std::vector<std::string> wanted)
      : archives_(archives), wanted_(std::move(wanted)) {
    open_next();
  }

  bool next(std::vector<std::string_view>& fields) override {
    while (!reader_->next(fields)) {
      if (at_ == archives_.size()) return false;
      open_next();
    }
    return true;
  }
  std::string place() const override { return reader_->place(); }

 private:
  void open_next() {
    const Archive& archive = archives_[at_++];
    try {
      reader_ = std::make_unique<WebdatasetReader>(archive.bytes.view, wanted_, archive.path);
    } catch (const DataError& error) {  // not of one sample
      throw Error(ExitCode::kData, error.what(), error.hint());
    }
  }

  const std::vector<Archive>& archives_;
  std::vector<std::string> wanted_;
  size_t at_ = 0;
  std::unique_ptr<WebdatasetReader> reader_;
};

class WebdatasetSource final : public RecordSource {
 public:
  explicit WebdatasetSource(const std::string& path) {
    std::vector<std::string> paths;
    if (fs::is_directory(path)) {
      for (const auto& entry : fs::directory_iterator(path)) {
        if (entry.path().extension() == ".tar") paths.push_back(entry.path().string());
      }
      if (paths.empty()) throw DataError("no '*.tar' files in '" + path + "'");
      std::sort(paths.begin(), paths.end());
    } else {
      paths.push_back(path);
    }
    for (const std::string& file : paths) archives_.push_back({file, map_file(file)});
  }

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    return std::make_unique<ChainedArchives>(archives_, wanted);
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
