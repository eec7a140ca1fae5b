// Texts or text pairs in MosaicML's MDS shards.
#include <filesystem>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/text/text_records.h"
#include "formats/archive/compression.h"
#include "formats/records/mds.h"

namespace accel {
namespace {

/// A shard's file, compressed or not.
struct MdsFile {
  MdsShard shard;
  std::string path;
  SharedBytes bytes;
  bool packed = false;
};

/// Hashes of unknown algorithms are not checked.
void check_hashes(const MdsFile& file) {
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.view.data()),
                              file.bytes.view.size());
  for (const auto& [algorithm, wanted] :
       file.packed ? file.shard.packed_hashes : file.shard.hashes) {
    const auto found = named_digest(algorithm, text);
    if (!found || *found == wanted) continue;
    throw Error(ExitCode::kData,
                accel::text("'{}' does not match the index: its {} is {}, not {}", file.path,
                            algorithm, *found, wanted),
                "copy the file again");
  }
}

SharedBytes unpacked(const MdsFile& file) {
  if (!file.packed) return file.bytes;
  if (file.shard.compression == "gz") return gunzip(file.bytes.view, file.shard.bytes, file.path);
  auto bytes = std::make_shared<const std::vector<std::byte>>(
      unzstd(file.bytes.view, file.shard.bytes, file.path));
  return {*bytes, bytes};
}

/// A reader that owns the shard's uncompressed bytes.
class ShardReader final : public RecordReader {
 public:
  ShardReader(const MdsFile& file, const std::vector<std::string>& wanted)
      : bytes_(checked(file)), reader_(bytes_.view, file.shard, wanted, file.path) {}

  bool next(std::vector<std::string_view>& fields) override { return reader_.next(fields); }
  std::string location() const override { return reader_.location(); }

 private:
  static SharedBytes checked(const MdsFile& file) {
    check_hashes(file);
    try {
      return unpacked(file);
    } catch (const DataError& error) {  // the error is not of a single sample
      throw Error(ExitCode::kData, error.what(), error.hint());
    }
  }

  SharedBytes bytes_;
  MdsReader reader_;
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
    if (files_.empty()) throw DataError(accel::text("'{}' names no shards", index));
  }

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    return std::make_unique<ChainedReader>(files_.size(), [this, wanted](size_t i) {
      return std::make_unique<ShardReader>(files_[i], wanted);
    });
  }
  FileContents contents() const override {
    FileContents all;
    for (const MdsFile& file : files_) all.push_back(file.bytes.view);
    return all;
  }
  std::string format() const override { return "mds"; }
  const char* record_name() const override { return "samples"; }

 private:
  /// The uncompressed file, if streaming has unpacked it already.
  static MdsFile open_shard(const std::string& folder, MdsShard shard) {
    MdsFile file{std::move(shard), {}, {}, false};
    file.path = folder + "/" + file.shard.file;
    file.packed = !file.shard.compression.empty() && !std::filesystem::exists(file.path);
    if (file.packed) {
      file.path = folder + "/" + file.shard.packed_file;
      if (file.shard.compression != "zstd" && file.shard.compression != "gz") {
        throw DataError(accel::text("'{}' is compressed by '{}', which is not supported", file.path,
                                    file.shard.compression),
                        accel::text("decompress '{}' into the same folder, for 'br' with 'brotli "
                                    "-d', or write the shards with 'zstd', 'gz' or no compression",
                                    file.shard.file));
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
