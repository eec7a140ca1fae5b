// Texts or text pairs in MosaicML's MDS shards.
#include <filesystem>
#include <functional>

#include "core/base/bytes.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/text/shard_files.h"
#include "data/datasets/text/streamed_records.h"
#include "data/datasets/text/text_records.h"
#include "formats/archive/compression.h"
#include "formats/records/mds.h"

namespace accel {
namespace {

/// A shard's file, compressed or not.
struct MdsFile {
  MdsShard shard;
  std::string path;
  bool packed = false;
};

/// Hashes of unknown algorithms are not checked.
void check_hashes(const MdsFile& file, ByteSpan bytes) {
  for (const auto& [algorithm, wanted] :
       file.packed ? file.shard.packed_hashes : file.shard.hashes) {
    const auto found = named_digest(algorithm, as_text(bytes));
    if (!found || *found == wanted) continue;
    throw Error(ExitCode::kData,
                accel::text("'{}' does not match the index: its {} is {}, not {}", file.path,
                            algorithm, *found, wanted),
                "copy the file again");
  }
}

SharedBytes unpacked(const MdsFile& file, SharedBytes stored) {
  if (!file.packed) return stored;
  if (file.shard.compression == "gz") return gunzip(stored.view, file.shard.bytes, file.path);
  auto bytes = std::make_shared<const std::vector<std::byte>>(
      unzstd(stored.view, file.shard.bytes, file.path));
  return {*bytes, bytes};
}

/// A reader that owns the shard's uncompressed bytes.
class ShardReader final : public RecordReader {
 public:
  ShardReader(const MdsFile& file, SharedBytes stored, const std::vector<std::string>& wanted)
      : bytes_(checked(file, std::move(stored))),
        reader_(bytes_.view, file.shard, wanted, file.path) {}

  bool next(std::vector<std::string_view>& fields) override { return reader_.next(fields); }
  std::string location() const override { return reader_.location(); }

 private:
  static SharedBytes checked(const MdsFile& file, SharedBytes stored) {
    check_hashes(file, stored.view);
    try {
      return unpacked(file, std::move(stored));
    } catch (const DataError& error) {  // the error is not of a single sample
      throw Error(ExitCode::kData, error.what(), error.hint());
    }
  }

  SharedBytes bytes_;
  MdsReader reader_;
};

/// The shards of an index, their files in `folder`. `exists`: whether an uncompressed file is
/// there.
std::vector<MdsFile> files_of(std::vector<MdsShard> shards, const std::string& folder,
                              const std::function<bool(const std::string& path)>& exists) {
  std::vector<MdsFile> files;
  for (MdsShard& shard : shards) {
    MdsFile file{std::move(shard), {}, false};
    file.path = folder + "/" + file.shard.file;
    file.packed = !file.shard.compression.empty() && !exists(file.path);
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
    files.push_back(std::move(file));
  }
  return files;
}

class MdsFolder final : public RecordSource {
 public:
  explicit MdsFolder(const StreamedRecordOptions& options)
      : objects_(options.location.is_url()
                     ? stream_objects(options.location.text, options.streaming)
                     : nullptr),
        files_(objects_ ? streamed_files(options.location.text, objects_->store())
                        : mapped_files(options.location.text)),
        stored_(objects_ ? streamed(options.location.text) : mapped()) {}

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    return std::make_unique<ChainedReader>(files_.size(), [this, wanted](size_t i) {
      return std::make_unique<ShardReader>(files_[i], stored_.open(i), wanted);
    });
  }
  FileContents contents() const override { return stored_.contents(); }
  std::string format() const override { return "mds"; }
  const char* record_name() const override { return "samples"; }

 private:
  static constexpr auto kIndex = "index.json";

  /// The uncompressed file, if streaming has unpacked it already.
  static std::vector<MdsFile> mapped_files(const std::string& folder) {
    const std::string index = folder + "/" + kIndex;
    const SharedBytes text = map_file(index);
    return some(files_of(read_mds_index(as_text(text.view), index), folder,
                         [](const std::string& path) { return std::filesystem::exists(path); }),
                index);
  }
  /// The compressed files, as MosaicML's writer uploads them.
  static std::vector<MdsFile> streamed_files(const std::string& url, ObjectStore& store) {
    constexpr int64_t kMostOfAnIndex = int64_t{256} << 20;
    const std::string index = store.url_of(kIndex);
    return some(files_of(read_mds_index(read_object_text(store, kIndex, kMostOfAnIndex), index),
                         url, [](const std::string&) { return false; }),
                index);
  }
  static std::vector<MdsFile> some(std::vector<MdsFile> files, const std::string& index) {
    if (files.empty()) throw DataError(accel::text("'{}' names no shards", index));
    return files;
  }
  ShardFiles mapped() const {
    std::vector<std::string> paths;
    for (const MdsFile& file : files_) paths.push_back(file.path);
    return ShardFiles(paths);
  }
  ShardFiles streamed(const std::string& url) const {
    std::vector<std::string> names;
    for (const MdsFile& file : files_) {
      names.push_back(file.packed ? file.shard.packed_file : file.shard.file);
    }
    objects_->add(names);
    objects_->say_summary(url);
    return ShardFiles(objects_);
  }

  std::shared_ptr<StreamedObjects> objects_;  ///< null: the files are on this machine
  std::vector<MdsFile> files_;
  ShardFiles stored_;
};

class Mds final : public TextRecords {
 public:
  static constexpr auto kName = "mds";
  static constexpr auto kSummary =
      "MosaicML's shards (MDS): a text or a pair of texts per sample, as tokens.";

  static Schema<StreamedRecordOptions> schema() {
    return with_record_columns(
        with_streaming(Schema<StreamedRecordOptions>(),
                       "The folder of the shards and their index.json, or its URL."));
  }

  Mds(const StreamedRecordOptions& options, const DatasetContext& context)
      : TextRecords(options.records(), context, std::make_unique<MdsFolder>(options)) {}
};

const Register<Mds> mds;

}  // namespace
}  // namespace accel
