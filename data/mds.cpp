// Texts, or pairs of them, in a folder of MosaicML's shards.
#include <filesystem>

#include "core/error.h"
#include "core/registry.h"
#include "data/text_records.h"
#include "runner/formats/gzip.h"
#include "runner/formats/mapped_file.h"
#include "runner/formats/mds.h"
#include "runner/formats/named_digest.h"
#include "runner/formats/zstd.h"

namespace accel {
namespace {

/// A shard's file, packed or not.
struct MdsFile {
  MdsShard shard;
  std::string path;
  SharedBytes bytes;
  bool packed = false;
};

/// Those of an algorithm that is not known stay unchecked.
void check_hashes(const MdsFile& file) {
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.view.data()),
                              file.bytes.view.size());
  for (const auto& [algorithm, wanted] :
       file.packed ? file.shard.packed_hashes : file.shard.hashes) {
    const auto found = named_digest(algorithm, text);
    if (!found || *found == wanted) continue;
    throw Error(ExitCode::kData,
                "'" + file.path + "' is not what the index tells of: its " + algorithm + " is " +
                    *found + ", not " + wanted,
                "copy the file once more");
  }
}

SharedBytes unpacked(const MdsFile& file) {
  if (!file.packed) return file.bytes;
  if (file.shard.compression == "gz") return gunzip(file.bytes.view, file.shard.bytes, file.path);
  auto bytes = std::make_shared<const std::vector<std::byte>>(
      unzstd(file.bytes.view, file.shard.bytes, file.path));
  return {*bytes, bytes};
}

/// The samples of all shards as those of one.
class ChainedShards final : public RecordReader {
 public:
  ChainedShards(const std::vector<MdsFile>& files, std::vector<std::string> wanted)
      : files_(files), wanted_(std::move(wanted)) {
    open_next();
  }

  bool next(std::vector<std::string_view>& fields) override {
    while (!reader_->next(fields)) {
      if (at_ == files_.size()) return false;
      open_next();
    }
    return true;
  }
  std::string place() const override { return reader_->place(); }

 private:
  void open_next() {
    const MdsFile& file = files_[at_++];
    reader_.reset();
    check_hashes(file);
    bytes_ = {};
    try {
      bytes_ = unpacked(file);
    } catch (const DataError& error) {  // not of one sample
      throw Error(ExitCode::kData, error.what(), error.hint());
    }
    reader_ = std::make_unique<MdsReader>(bytes_.view, file.shard, wanted_, file.path);
  }

  const std::vector<MdsFile>& files_;
  std::vector<std::string> wanted_;
  size_t at_ = 0;
  SharedBytes bytes_;
  std::unique_ptr<MdsReader> reader_;
};

class MdsFolder final : public RecordSource {
 public:
  explicit MdsFolder(const std::string& folder) {
    const std::string index = folder + "/index.json";
    const SharedBytes text = map_file(index);
    for (MdsShard& shard : read_mds_index(
             {reinterpret_cast<const char*>(text.view.data()), text.view.size()}, index)) {
      files_.push_back(open_shard(folder, std::move(shard)));
    }
    if (files_.empty()) throw DataError("'" + index + "' names no shards");
  }

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    return std::make_unique<ChainedShards>(files_, wanted);
  }
  FileContents contents() const override {
    FileContents all;
    for (const MdsFile& file : files_) all.push_back(file.bytes.view);
    return all;
  }
  std::string format() const override { return "mds"; }
  const char* record_name() const override { return "samples"; }

 private:
  /// Unpacked where it already is, as streaming leaves it.
  static MdsFile open_shard(const std::string& folder, MdsShard shard) {
    MdsFile file{std::move(shard), {}, {}, false};
    file.path = folder + "/" + file.shard.file;
    file.packed = !file.shard.compression.empty() && !std::filesystem::exists(file.path);
    if (file.packed) {
      file.path = folder + "/" + file.shard.packed_file;
      if (file.shard.compression != "zstd" && file.shard.compression != "gz") {
        throw DataError("'" + file.path + "' is compressed by '" + file.shard.compression +
                            "', which is not read",
                        "put the unpacked '" + file.shard.file +
                            "' beside it, as 'brotli -d' does for 'br', or write the shards with "
                            "'zstd', 'gz' or no compression");
      }
    }
    file.bytes = map_file(file.path);
    return file;
  }

  std::vector<MdsFile> files_;
};

class Mds final : public TextRecords {
 public:
  static constexpr auto kName = "mds";
  static constexpr auto kSummary =
      "MosaicML's shards (MDS): a text or a pair of texts per sample, as tokens.";

  static Schema<TextRecordOptions> schema() {
    return with_text_records(Schema<TextRecordOptions>(),
                             "The folder of the shards and their index.json.");
  }

  Mds(const TextRecordOptions& options, const DatasetContext& context)
      : TextRecords(options, context, std::make_unique<MdsFolder>(options.path.text)) {}
};

const Register<Mds> mds;

}  // namespace
}  // namespace accel
