#include "formats/archive/zip.h"

#include <algorithm>
#include <new>
#include <optional>

#include <zlib.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "formats/archive/compression.h"

namespace accel {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryHeader = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr uint32_t kEnd64Locator = 0x07064b50;
constexpr size_t kLocalBytes = 30;
constexpr size_t kDirectoryEntryBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kLocatorBytes = 20;
constexpr size_t kMaxComment = 0xffff;
constexpr uint64_t kAlignment = 64;
constexpr uint64_t kMaxEntries = uint64_t{1} << 18;  // an entry takes more memory than file
constexpr uint32_t kSee64 = 0xffffffff;              // the value is in the ZIP64 record
constexpr uint16_t kSee64Short = 0xffff;
constexpr uint16_t kZip64Extra = 0x0001;
constexpr uint16_t kPaddingExtra = 0x4246;  // PyTorch's mark, "FB"
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr uint16_t kEncrypted = 1;
constexpr uint16_t kSizesFollow = 1 << 3;
constexpr uint16_t kUtf8Names = 1 << 11;
constexpr uint16_t kDosDate = 33;  // 1980-01-01, the first DOS date
constexpr uint16_t kVersion = 45;

bool needs_64(uint64_t value) {
  return value >= kSee64;
}

uint32_t short_or_64(uint64_t value) {
  return needs_64(value) ? kSee64 : static_cast<uint32_t>(value);
}

uint32_t crc_of(ByteSpan data) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size()));
}

/// Appends numbers as little-endian bytes, each in the width of its type.
template <class... Values>
void put_fields(std::string& out, Values... values) {
  (put_little(out, values), ...);
}

/// The ZIP64 extra field.
std::string zip64_extra(std::initializer_list<uint64_t> values) {
  std::string numbers;
  for (const uint64_t value : values) put_little(numbers, value);
  std::string out;
  put_fields(out, kZip64Extra, static_cast<uint16_t>(numbers.size()));
  return out + numbers;
}

/// The fields that a local header and a directory entry share.
void put_common(std::string& out, uint32_t crc, uint64_t bytes) {
  constexpr uint16_t kTime = 0;
  put_fields(out, kVersion, kUtf8Names, kStored, kTime, kDosDate, crc);
  put_fields(out, short_or_64(bytes), short_or_64(bytes));
}

/// Offset of the end record, which a comment of at most `max_comment` bytes may
/// follow.
size_t find_end_record(ByteSpan file, size_t max_comment) {
  if (file.size() >= kEndBytes) {
    const size_t last = file.size() - kEndBytes;
    const size_t first = last - std::min(last, max_comment);
    for (size_t at = last + 1; at-- > first;) {
      if (ByteReader(file.subspan(at), "the end record").little<uint32_t>() == kEnd) return at;
    }
  }
  throw FormatError("not a zip archive: the end record is missing");
}

struct ZipDirectory {
  uint64_t entries;
  uint64_t bytes;
  uint64_t offset;
};

/// The directory's extent, from the end record and the ZIP64 one.
ZipDirectory find_directory(ByteSpan file, size_t max_comment) {
  const size_t end = find_end_record(file, max_comment);
  ByteReader reader(file.subspan(end), "the end record");
  reader.take(4);  // signature
  if (reader.little<uint32_t>() != 0) throw FormatError("split zip archives are not supported");
  const auto here = reader.little<uint16_t>(), total = reader.little<uint16_t>();
  ZipDirectory out = {total, reader.little<uint32_t>(), reader.little<uint32_t>()};
  if (reader.little<uint16_t>() > max_comment) throw FormatError("the zip archive has a comment");
  uint64_t stop = end;
  if (end >= kLocatorBytes + kEnd64Bytes) {
    ByteReader locator(file.subspan(end - kLocatorBytes, kLocatorBytes), "the ZIP64 locator");
    if (locator.little<uint32_t>() == kEnd64Locator) {
      stop = end - kLocatorBytes - kEnd64Bytes;
      ByteReader big(file.subspan(stop, kEnd64Bytes), "the ZIP64 end record");
      locator.take(4);  // disk number
      if (locator.little<uint64_t>() != stop || big.little<uint32_t>() != kEnd64) {
        throw FormatError("the ZIP64 end record is not at the offset in its locator");
      }
      big.take(28);  // sizes, versions, disk numbers, entries on this disk
      const ZipDirectory wide = {big.little<uint64_t>(), big.little<uint64_t>(),
                                 big.little<uint64_t>()};
      const bool agree = (total == kSee64Short || total == wide.entries) &&
                         (out.bytes == kSee64 || out.bytes == wide.bytes) &&
                         (out.offset == kSee64 || out.offset == wide.offset);
      if (!agree) throw FormatError("the ZIP64 end record contradicts the end record");
      out = wide;
    }
  }
  if (here != total) throw FormatError("split zip archives are not supported");
  if (out.offset > stop || out.bytes != stop - out.offset) {
    throw FormatError("the zip directory does not end at the end record");
  }
  return out;
}

struct ZipEntry {
  std::string name;
  uint16_t flags, method;
  uint32_t crc;
  uint64_t packed;  ///< bytes in the archive
  uint64_t bytes;   ///< uncompressed
  uint64_t offset;

  std::string shown() const { return text("the zip entry '{}'", name); }
};

/// Replaces the numbers that the ZIP64 extra field holds.
void apply_zip64(ByteSpan extra, std::initializer_list<uint64_t*> numbers) {
  ByteReader fields(extra, "an extra field");
  while (fields.left() >= 4) {
    const auto id = fields.little<uint16_t>();
    ByteReader body(fields.take(fields.little<uint16_t>()), "a ZIP64 extra field");
    if (id != kZip64Extra) continue;
    for (uint64_t* number : numbers) {
      if (*number == kSee64) *number = body.little<uint64_t>();
    }
  }
}

/// The next directory entry.
ZipEntry read_entry(ByteReader& reader) {
  if (reader.little<uint32_t>() != kDirectoryHeader) {
    throw FormatError("the zip directory is damaged");
  }
  reader.take(4);  // versions
  ZipEntry out = {};
  out.flags = reader.little<uint16_t>();
  out.method = reader.little<uint16_t>();
  reader.take(4);  // time, date
  out.crc = reader.little<uint32_t>();
  out.packed = reader.little<uint32_t>();
  out.bytes = reader.little<uint32_t>();
  const auto name_bytes = reader.little<uint16_t>(), extra_bytes = reader.little<uint16_t>();
  const auto comment_bytes = reader.little<uint16_t>();
  reader.take(8);  // disk number, attributes
  out.offset = reader.little<uint32_t>();
  out.name = as_text(reader.take(name_bytes));
  apply_zip64(reader.take(extra_bytes), {&out.bytes, &out.packed, &out.offset});
  reader.take(comment_bytes);
  return out;
}

void check_stored(const ZipEntry& entry) {
  if (entry.name.find('\0') != entry.name.npos) {
    throw FormatError("a zip entry's name holds a NUL byte");
  }
  if (entry.method != kStored) throw FormatError(text("{} is compressed", entry.shown()));
  if (entry.flags & kEncrypted) throw FormatError(text("{} is encrypted", entry.shown()));
  if (entry.packed != entry.bytes) {
    throw FormatError(text("{} is stored but has two sizes", entry.shown()));
  }
}

/// The entry's data in the archive, after its local header was compared with
/// the directory.
ByteSpan locate(ByteSpan before_directory, const ZipEntry& entry) {
  const std::string what = entry.shown();
  if (entry.offset > before_directory.size())
    throw FormatError(text("{} is outside the file", what));
  ByteReader reader(before_directory.subspan(entry.offset), what);
  ByteReader header(reader.take(kLocalBytes), what);
  if (header.little<uint32_t>() != kLocalHeader)
    throw FormatError(text("{} has no local header", what));
  header.take(2);
  const auto flags = header.little<uint16_t>();
  header.take(10);  // method, time, date, CRC
  uint64_t packed = header.little<uint32_t>(), bytes = header.little<uint32_t>();
  const auto name_bytes = header.little<uint16_t>(), extra_bytes = header.little<uint16_t>();
  if (as_text(reader.take(name_bytes)) != entry.name) {
    throw FormatError(text("{} has another name in its local header", what));
  }
  apply_zip64(reader.take(extra_bytes), {&bytes, &packed});
  const bool sizes_follow = (flags & kSizesFollow) && bytes == 0 && packed == 0;
  if (!sizes_follow && (bytes != entry.bytes || packed != entry.packed)) {
    throw FormatError(text("{} has another size in its local header", what));
  }
  return reader.take(entry.packed);
}

/// Whether `packed` inflates to exactly `out`.
bool inflates_to(ByteSpan packed, std::span<std::byte> out) {
  z_stream stream = {};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = ::inflate(&stream, Z_FINISH);
  ::inflateEnd(&stream);
  return result == Z_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0;
}

}  // namespace

void ZipWriter::put(ByteSpan bytes) {
  sink_(bytes);
  offset_ += bytes.size();
}

void ZipWriter::add(const std::string& name, ByteSpan data) {
  const Entry entry = {name, crc_of(data), data.size(), offset_};
  std::string extra = needs_64(data.size()) ? zip64_extra({data.size(), data.size()}) : "";
  const uint64_t unpadded = offset_ + kLocalBytes + name.size() + extra.size() + 4;
  const uint64_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  put_fields(extra, kPaddingExtra, static_cast<uint16_t>(padding));
  extra.append(padding, 'Z');

  std::string header;
  put_little(header, kLocalHeader);
  put_common(header, entry.crc, entry.bytes);
  put_fields(header, static_cast<uint16_t>(name.size()), static_cast<uint16_t>(extra.size()));
  put(as_bytes(header + name + extra));
  put(data);
  entries_.push_back(entry);
}

std::string ZipWriter::directory() const {
  std::string out;
  for (const Entry& entry : entries_) {
    std::string extra;
    if (needs_64(entry.bytes) && needs_64(entry.offset)) {
      extra = zip64_extra({entry.bytes, entry.bytes, entry.offset});
    } else if (needs_64(entry.bytes)) {
      extra = zip64_extra({entry.bytes, entry.bytes});
    } else if (needs_64(entry.offset)) {
      extra = zip64_extra({entry.offset});
    }
    put_fields(out, kDirectoryHeader, kVersion);
    put_common(out, entry.crc, entry.bytes);
    put_fields(out, static_cast<uint16_t>(entry.name.size()), static_cast<uint16_t>(extra.size()));
    out.append(10, '\0');  // comment size, disk number, attributes
    put_little(out, short_or_64(entry.offset));
    out += entry.name + extra;
  }
  return out;
}

void ZipWriter::finish() {
  const uint64_t start = offset_;
  const std::string listing = directory();
  put(as_bytes(listing));
  std::string end;
  if (needs_64(start) || needs_64(listing.size()) || entries_.size() >= kSee64Short) {
    const uint64_t count = entries_.size(), bytes = listing.size();
    put_fields(end, kEnd64, uint64_t{kEnd64Bytes - 12}, kVersion, kVersion);
    put_fields(end, uint64_t{0}, count, count, bytes, start);  // 0: disk numbers
    put_fields(end, kEnd64Locator, uint32_t{0}, offset_, uint32_t{1});
  }
  const auto count = static_cast<uint16_t>(std::min<size_t>(entries_.size(), kSee64Short));
  put_fields(end, kEnd, uint32_t{0}, count, count);  // 0: disk numbers
  put_fields(end, short_or_64(listing.size()), short_or_64(start));
  put_little<uint16_t>(end, 0);  // comment size
  put(as_bytes(end));
}

ZipReader::ZipReader(ByteSpan file) {
  const ZipDirectory directory = find_directory(file, 0);
  if (directory.entries > directory.bytes / kDirectoryEntryBytes) {
    throw FormatError(text("the zip directory claims {} entries in {} bytes", directory.entries,
                           directory.bytes));
  }
  if (directory.entries > kMaxEntries) {
    throw FormatError(
        text("the zip archive has {} entries, at most {} wanted", directory.entries, kMaxEntries));
  }
  ByteReader reader(file.subspan(directory.offset, directory.bytes), "the zip directory");
  std::vector<std::pair<uint64_t, uint64_t>> taken;  // from the local header to the data's end
  for (uint64_t i = 0; i < directory.entries; ++i) {
    const ZipEntry entry = read_entry(reader);
    check_stored(entry);
    const ByteSpan data = locate(file.first(directory.offset), entry);
    taken.emplace_back(entry.offset, data.data() + data.size() - file.data());
    if (entry.crc != 0) checksums_.emplace_back(data, entry.crc);
    if (!entries_.emplace(entry.name, data).second) {
      throw FormatError(text("the zip archive has '{}' twice", entry.name));
    }
  }
  if (reader.left() != 0) throw FormatError("the zip directory has bytes after its last entry");
  std::sort(taken.begin(), taken.end());
  if (!taken.empty() && taken.front().first != 0) {
    throw FormatError("the zip archive has bytes before its first entry");
  }
  for (size_t i = 1; i < taken.size(); ++i) {
    if (taken[i].first < taken[i - 1].second) throw FormatError("zip entries overlap");
  }
}

void ZipReader::check_data() const {
  for (const auto& [data, crc] : checksums_) {
    if (crc_of(data) == crc) continue;
    for (const auto& [name, bytes] : entries_) {
      if (bytes.data() != data.data() || bytes.size() != data.size()) continue;
      throw FormatError(text("the zip entry '{}' is damaged: its CRC-32 does not match", name));
    }
  }
}

SharedBytes unzip_member(ByteSpan archive, const std::string& name, size_t cap) {
  const ZipDirectory directory = find_directory(archive, kMaxComment);
  ByteReader reader(archive.subspan(directory.offset, directory.bytes), "the zip directory");
  std::optional<ZipEntry> entry;
  while (!entry && reader.left() > 0) {
    ZipEntry next = read_entry(reader);
    if (next.name == name) entry = std::move(next);
  }
  if (!entry) throw FormatError(text("the zip archive has no '{}'", name));
  const std::string what = entry->shown();
  if (entry->flags & kEncrypted) throw FormatError(text("{} is encrypted", what));
  if (entry->method != kStored && entry->method != kDeflated) {
    throw FormatError(
        text("{} has compression method {}, not stored (0) or deflated (8)", what, entry->method));
  }
  if (entry->bytes > cap) {
    throw FormatError(text("{} claims {} bytes, at most {} wanted", what, entry->bytes, cap));
  }
  const bool stored = entry->method == kStored;
  const bool possible =
      stored ? entry->packed == entry->bytes : entry->bytes / kMaxInflation <= entry->packed;
  if (!possible) throw FormatError(text("{} claims more bytes than its data can hold", what));
  const ByteSpan packed = locate(archive.first(directory.offset), *entry);
  Array out(DType::kU8, {static_cast<int64_t>(entry->bytes)});
  const std::span<std::byte> bytes(out.mutable_data(), entry->bytes);
  if (stored) std::copy(packed.begin(), packed.end(), bytes.begin());
  const bool whole = stored || inflates_to(packed, bytes);
  if (!whole || crc_of(bytes) != entry->crc) {
    throw FormatError(text("{} is damaged: its CRC-32 does not match", what));
  }
  return {{out.data(), entry->bytes}, out.owner()};
}

}  // namespace accel
