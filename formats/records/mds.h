// MosaicML streaming datasets (MDS): the index of a folder and the samples of a shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/records/records.h"

namespace accel {

struct MdsColumn {
  std::string name;
  std::string encoding;          ///< "str", "int", "float32", ...
  std::optional<uint32_t> size;  ///< bytes per value; none: variable
};

struct MdsShard {
  std::vector<MdsColumn> columns;
  std::string file;         ///< uncompressed
  std::string packed_file;  ///< compressed; empty: none
  std::string compression;  ///< "zstd", "gz", ...; empty: none
  size_t bytes = 0;         ///< of `file`
  /// Hexadecimal checksums of `file` and `packed_file` by algorithm.
  std::map<std::string, std::string> hashes, packed_hashes;
  int64_t samples = 0;
};

/// Reads an index.json; `name` is for messages. Throws DataError for other files, shards outside
/// the folder and shards of more than 1 GiB.
std::vector<MdsShard> read_mds_index(std::string_view text, const std::string& name);

/// The samples of one shard: columns of strings, integers and floats.
class MdsReader final : public RecordReader {
 public:
  /// `bytes` are the uncompressed shard; they and `shard` must outlive the reader. A column may be
  /// wanted twice. Throws DataError for a missing column and for other encodings.
  MdsReader(std::span<const std::byte> bytes, const MdsShard& shard,
            const std::vector<std::string>& wanted, std::string name);

  bool next(std::vector<std::string_view>& fields) override;
  /// "shard.00000.mds sample 3", from 0.
  std::string location() const override;

 private:
  std::span<const std::byte> sample_bytes() const;
  [[noreturn]] void fail(const std::string& problem) const;

  std::span<const std::byte> bytes_;
  const MdsShard& shard_;
  std::string name_;
  std::vector<size_t> wanted_;  // columns
  std::vector<std::string> values_;
  std::vector<std::span<const std::byte>> fields_;  // of the sample, by column
  int64_t at_ = -1;
};

}  // namespace accel
