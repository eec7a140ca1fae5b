// Texts or text pairs in WebDataset archives.
#include "formats/records/webdataset.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/text/shard_files.h"
#include "data/datasets/text/text_records.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr auto kTar = ".tar";

/// "a-3.tar", "a-4.tar" for "a-{3..4}.tar", WebDataset's notation; numbers keep their leading
/// zeros.
std::vector<std::string> expanded(const std::string& name) {
  const size_t open = name.find('{'), dots = name.find("..", open), close = name.find('}', dots);
  if (open == name.npos) return {name};
  const auto number = [&](size_t begin, size_t end) {
    const std::string_view digits = std::string_view(name).substr(begin, end - begin);
    int64_t out = -1;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return parsed.ptr == digits.data() + digits.size() ? out : -1;
  };
  constexpr int64_t kMost = 1'000'000;
  const int64_t first = close == name.npos ? -1 : number(open + 1, dots);
  const int64_t last = close == name.npos ? -1 : number(dots + 2, close);
  if (first < 0 || last < first || last - first >= kMost) {
    throw DataError(accel::text("'{}' has no range of numbers in braces", name),
                    "write 'shard-{000000..000099}.tar'");
  }
  std::vector<std::string> out;
  for (int64_t i = first; i <= last; ++i) {
    std::string digits = std::to_string(i);
    digits.insert(0, std::string(dots - open - 1 - std::min(dots - open - 1, digits.size()), '0'));
    out.push_back(name.substr(0, open) + digits + name.substr(close + 1));
  }
  return out;
}

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

ShardFiles archives_of_url(const std::string& url, const StreamingSection& streaming) {
  std::shared_ptr<StreamedObjects> objects;
  if (url.ends_with(kTar)) {
    const size_t slash = url.rfind('/');
    objects = stream_objects(url.substr(0, slash), streaming);
    objects->add(expanded(url.substr(slash + 1)));
  } else {
    objects = stream_objects(url, streaming);
    const auto listing = objects->store().list();
    if (!listing) {
      throw DataError(accel::text("the server of '{}' lists no files", url),
                      "name the archives, such as '.../shard-{000000..000099}.tar'");
    }
    for (const ObjectInfo& object : *listing) {
      if (object.name.ends_with(kTar)) objects->add(object);
    }
    if (objects->count() == 0) throw DataError(accel::text("no '*.tar' files in '{}'", url));
  }
  objects->say_summary(url);
  return ShardFiles(std::move(objects));
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
                      ? archives_of_url(options.location.text, options.streaming)
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
