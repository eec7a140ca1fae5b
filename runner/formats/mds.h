// MosaicML's shards of samples (MDS): the index of a folder, and the samples of a shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/formats/records.h"

namespace accel {

struct MdsColumn {
  std::string name;
  std::string encoding;          ///< "str", "int", "float32", ...
  std::optional<uint32_t> size;  ///< bytes of each value; none: they vary
};

struct MdsShard {
  std::vector<MdsColumn> columns;
  std::string file;         ///< as it is without compression
  std::string packed_file;  ///< empty where there is no compression
  std::string compression;  ///< "zstd", "gz", ...; empty: none
  size_t bytes = 0;         ///< of `file`
  /// Checksums of `file` and of `packed_file`, in hexadecimal by their algorithms' names.
  std::map<std::string, std::string> hashes, packed_hashes;
  int64_t samples = 0;
};

/// What an index.json says, `name` for messages. Throws DataError when it is none, names a file
/// outside its folder, or a shard of more than 1 GiB.
std::vector<MdsShard> read_mds_index(std::string_view text, const std::string& name);

/// The samples of one shard, of each some columns: texts, whole numbers and floats.
class MdsReader final : public RecordReader {
 public:
  /// `bytes` are the shard's, uncompressed; they and `shard` must outlive the reader. A column may
  /// be wanted twice. Throws DataError for one that is not there or holds something else.
  MdsReader(std::span<const std::byte> bytes, const MdsShard& shard,
            const std::vector<std::string>& wanted, std::string name);

  bool next(std::vector<std::string_view>& fields) override;
  /// "shard.00000.mds sample 3", from 0.
  std::string place() const override;

 private:
  std::span<const std::byte> sample_bytes() const;
  [[noreturn]] void fail(const std::string& problem) const;

  std::span<const std::byte> bytes_;
  const MdsShard& shard_;
  std::string name_;
  std::vector<size_t> wanted_;  // columns
  std::vector<std::string> values_;
  std::vector<std::span<const std::byte>> parts_;  // of the sample, by column
  int64_t at_ = -1;
};

}  // namespace accel
