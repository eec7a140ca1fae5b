// Zip archives: PyTorch's files of stored entries, and single files from
// archives of other tools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/mapped_file.h"

namespace accel {

/// Writes stored (uncompressed) entries, each with its data aligned to 64 bytes
/// so that a mapped file can be used in place. ZIP64 is used for large sizes.
/// Without time stamps: equal entries give equal bytes.
class ZipWriter {
 public:
  explicit ZipWriter(ByteSink sink) : sink_(std::move(sink)) {}

  void add(const std::string& name, ByteSpan data);
  /// Writes the directory; nothing may follow.
  void finish();

 private:
  struct Entry {
    std::string name;
    uint32_t crc;
    uint64_t bytes;
    uint64_t offset;
  };

  void put(ByteSpan bytes);
  std::string directory() const;

  ByteSink sink_;
  uint64_t offset_ = 0;
  std::vector<Entry> entries_;
};

/// Reads an archive of stored entries through its directory; local headers are
/// only compared with it.
class ZipReader {
 public:
  /// `file` must outlive the reader. Throws FormatError for compressed or
  /// encrypted entries, comments, entries that overlap or share a name, and
  /// bytes before the first entry.
  explicit ZipReader(ByteSpan file);

  /// Data by name.
  const std::map<std::string, ByteSpan>& entries() const { return entries_; }
  /// Throws FormatError for an entry whose CRC-32 does not match. A CRC-32 of 0
  /// is not checked: PyTorch can be configured to write none.
  void check_data() const;

 private:
  std::map<std::string, ByteSpan> entries_;
  std::vector<std::pair<ByteSpan, uint32_t>> checksums_;
};

/// The content of the entry `name`, stored or deflated; the archive may end
/// with a comment. Throws FormatError for a missing, damaged or encrypted
/// entry, another compression method, more than `cap` bytes, and split
/// archives.
SharedBytes unzip_member(ByteSpan archive, const std::string& name, size_t cap);

}  // namespace accel
