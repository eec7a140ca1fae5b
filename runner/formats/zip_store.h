// Zip archives of stored (not compressed) entries, as PyTorch's files are.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runner/formats/bytes.h"

namespace accel {

/// Writes entries one after the other, each with its data at a multiple of 64 bytes, so that a
/// mapped file can be used in place. ZIP64 where sizes ask for it. No time stamps: the same entries
/// give the same bytes.
class ZipWriter {
 public:
  explicit ZipWriter(ByteSink sink) : sink_(std::move(sink)) {}

  void add(const std::string& name, ByteSpan data);
  /// Writes the directory. Nothing may follow.
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

/// Reads an archive through its directory; local headers are only compared with it.
class ZipReader {
 public:
  /// `file` must outlive the reader. Throws FormatError for compression, encryption, comments,
  /// entries that overlap or share a name, and bytes before the first entry.
  explicit ZipReader(ByteSpan file);

  /// Data by name.
  const std::map<std::string, ByteSpan>& entries() const { return entries_; }
  /// Throws FormatError for an entry whose data is not what its CRC-32 says; 0 is taken for none,
  /// as PyTorch can be told not to compute it.
  void check_data() const;

 private:
  std::map<std::string, ByteSpan> entries_;
  std::vector<std::pair<ByteSpan, uint32_t>> checksums_;  ///< of entries that have one
};

}  // namespace accel
