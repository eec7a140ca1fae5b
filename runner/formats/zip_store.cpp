#include "runner/formats/zip_store.h"

#include <algorithm>

#include <zlib.h>

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
constexpr uint64_t kAlignment = 64;
constexpr uint64_t kMaxEntries = uint64_t{1} << 18;  // an entry takes more memory than file
constexpr uint32_t kSee64 = 0xffffffff;              // "the number is in the ZIP64 record"
constexpr uint16_t kSee64Short = 0xffff;
constexpr uint16_t kZip64Extra = 0x0001;
constexpr uint16_t kPaddingExtra = 0x4246;  // PyTorch's own mark, "FB"
constexpr uint16_t kEncrypted = 1;
constexpr uint16_t kSizesFollow = 1 << 3;
constexpr uint16_t kUtf8Names = 1 << 11;
constexpr uint16_t kDosDate = 33;  // 1980-01-01, the first there is
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

/// The ZIP64 extra field with those of the values that do not fit in 32 bits, or "".
std::string zip64_extra(std::initializer_list<uint64_t> values) {
  std::string numbers;
  for (const uint64_t value : values) put_little(numbers, value);
  std::string out;
  put_little(out, kZip64Extra);
  put_little(out, static_cast<uint16_t>(numbers.size()));
  return out + numbers;
}

/// The fields that a local header and a directory entry share.
void put_common(std::string& out, uint32_t crc, uint64_t bytes) {
  put_little(out, kVersion);
  put_little(out, kUtf8Names);
  put_little<uint16_t>(out, 0);  // stored
  put_little<uint16_t>(out, 0);  // time
  put_little(out, kDosDate);
  put_little(out, crc);
  put_little(out, short_or_64(bytes));
  put_little(out, short_or_64(bytes));
}

struct Directory {
  uint64_t entries;
  uint64_t bytes;
  uint64_t offset;
};

/// Where the directory is, from the records at the very end of the file.
Directory find_directory(ByteSpan file) {
  if (file.size() < kEndBytes) throw FormatError("no zip archive: the end record is missing");
  const size_t end = file.size() - kEndBytes;
  ByteReader reader(file.subspan(end), "the end record");
  if (reader.little<uint32_t>() != kEnd) {
    throw FormatError("no zip archive: the end record is missing");
  }
  if (reader.little<uint32_t>() != 0) throw FormatError("the zip archive has several parts");
  const auto here = reader.little<uint16_t>(), total = reader.little<uint16_t>();
  Directory out = {total, reader.little<uint32_t>(), reader.little<uint32_t>()};
  if (reader.little<uint16_t>() != 0) throw FormatError("the zip archive ends with a comment");
  uint64_t stop = end;
  if (end >= kLocatorBytes + kEnd64Bytes) {
    ByteReader locator(file.subspan(end - kLocatorBytes, kLocatorBytes), "the ZIP64 locator");
    if (locator.little<uint32_t>() == kEnd64Locator) {
      stop = end - kLocatorBytes - kEnd64Bytes;
      ByteReader big(file.subspan(stop, kEnd64Bytes), "the ZIP64 end record");
      locator.take(4);  // part number
      if (locator.little<uint64_t>() != stop || big.little<uint32_t>() != kEnd64) {
        throw FormatError("the ZIP64 end record is not where its locator says");
      }
      big.take(28);  // sizes, versions, part numbers, entries in this part
      const Directory wide = {big.little<uint64_t>(), big.little<uint64_t>(),
                              big.little<uint64_t>()};
      const bool agree = (total == kSee64Short || total == wide.entries) &&
                         (out.bytes == kSee64 || out.bytes == wide.bytes) &&
                         (out.offset == kSee64 || out.offset == wide.offset);
      if (!agree) throw FormatError("the ZIP64 end record contradicts the end record");
      out = wide;
    }
  }
  if (here != total) throw FormatError("the zip archive has several parts");
  if (out.offset > stop || out.bytes != stop - out.offset) {
    throw FormatError("the zip directory does not end where the end record begins");
  }
  return out;
}

struct Listed {
  std::string name;
  uint64_t bytes;
  uint64_t offset;
  uint32_t crc;
};

/// Replaces the numbers that the ZIP64 extra field holds in place of 32-bit ones.
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

Listed read_listed(ByteReader& reader) {
  if (reader.little<uint32_t>() != kDirectoryHeader) {
    throw FormatError("the zip directory is damaged");
  }
  reader.take(4);  // versions
  const auto flags = reader.little<uint16_t>(), method = reader.little<uint16_t>();
  reader.take(4);  // time, date
  const auto crc = reader.little<uint32_t>();
  uint64_t packed = reader.little<uint32_t>(), bytes = reader.little<uint32_t>();
  const auto name_bytes = reader.little<uint16_t>(), extra_bytes = reader.little<uint16_t>();
  const auto comment_bytes = reader.little<uint16_t>();
  reader.take(8);  // part number, attributes
  uint64_t offset = reader.little<uint32_t>();
  std::string name(as_text(reader.take(name_bytes)));
  apply_zip64(reader.take(extra_bytes), {&bytes, &packed, &offset});
  reader.take(comment_bytes);
  if (name.find('\0') != name.npos) throw FormatError("a zip entry's name holds a NUL byte");
  if (method != 0) throw FormatError("the zip entry '" + name + "' is compressed");
  if (flags & kEncrypted) throw FormatError("the zip entry '" + name + "' is encrypted");
  if (packed != bytes) {
    throw FormatError("the zip entry '" + name + "' is stored but has two sizes");
  }
  return {std::move(name), bytes, offset, crc};
}

/// Where an entry's data is, once its local header agrees with the directory.
ByteSpan locate(ByteSpan before_directory, const Listed& listed) {
  const std::string what = "the zip entry '" + listed.name + "'";
  if (listed.offset > before_directory.size()) throw FormatError(what + " is outside the file");
  ByteReader reader(before_directory.subspan(listed.offset), what);
  ByteReader header(reader.take(kLocalBytes), what);
  if (header.little<uint32_t>() != kLocalHeader) throw FormatError(what + " has no local header");
  header.take(2);
  const auto flags = header.little<uint16_t>();
  header.take(10);  // method, time, date, CRC
  uint64_t packed = header.little<uint32_t>(), bytes = header.little<uint32_t>();
  const auto name_bytes = header.little<uint16_t>(), extra_bytes = header.little<uint16_t>();
  if (as_text(reader.take(name_bytes)) != listed.name) {
    throw FormatError(what + " has another name in its local header");
  }
  apply_zip64(reader.take(extra_bytes), {&bytes, &packed});
  const bool told_later = (flags & kSizesFollow) && bytes == 0 && packed == 0;
  if (!told_later && (bytes != listed.bytes || packed != listed.bytes)) {
    throw FormatError(what + " has another size in its local header");
  }
  return reader.take(listed.bytes);
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
  put_little(extra, kPaddingExtra);
  put_little(extra, static_cast<uint16_t>(padding));
  extra.append(padding, 'Z');

  std::string header;
  put_little(header, kLocalHeader);
  put_common(header, entry.crc, entry.bytes);
  put_little(header, static_cast<uint16_t>(name.size()));
  put_little(header, static_cast<uint16_t>(extra.size()));
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
    put_little(out, kDirectoryHeader);
    put_little(out, kVersion);
    put_common(out, entry.crc, entry.bytes);
    put_little(out, static_cast<uint16_t>(entry.name.size()));
    put_little(out, static_cast<uint16_t>(extra.size()));
    put_little<uint16_t>(out, 0);  // comment
    put_little<uint16_t>(out, 0);  // part
    put_little<uint16_t>(out, 0);  // internal attributes
    put_little<uint32_t>(out, 0);  // external attributes
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
    put_little(end, kEnd64);
    put_little<uint64_t>(end, kEnd64Bytes - 12);
    put_little(end, kVersion);
    put_little(end, kVersion);
    put_little<uint64_t>(end, 0);  // this part, the directory's part
    put_little<uint64_t>(end, entries_.size());
    put_little<uint64_t>(end, entries_.size());
    put_little<uint64_t>(end, listing.size());
    put_little(end, start);
    put_little(end, kEnd64Locator);
    put_little<uint32_t>(end, 0);
    put_little(end, offset_);
    put_little<uint32_t>(end, 1);
  }
  const auto count = static_cast<uint16_t>(std::min<size_t>(entries_.size(), kSee64Short));
  put_little(end, kEnd);
  put_little<uint32_t>(end, 0);  // part numbers
  put_little(end, count);
  put_little(end, count);
  put_little(end, short_or_64(listing.size()));
  put_little(end, short_or_64(start));
  put_little<uint16_t>(end, 0);  // comment
  put(as_bytes(end));
}

ZipReader::ZipReader(ByteSpan file) {
  const Directory directory = find_directory(file);
  if (directory.entries > directory.bytes / kDirectoryEntryBytes) {
    throw FormatError("the zip directory claims " + std::to_string(directory.entries) +
                      " entries in " + std::to_string(directory.bytes) + " bytes");
  }
  if (directory.entries > kMaxEntries) {
    throw FormatError("the zip archive has " + std::to_string(directory.entries) +
                      " entries, at most " + std::to_string(kMaxEntries) + " are read");
  }
  ByteReader reader(file.subspan(directory.offset, directory.bytes), "the zip directory");
  std::vector<std::pair<uint64_t, uint64_t>> taken;  // from the local header to the data's end
  for (uint64_t i = 0; i < directory.entries; ++i) {
    const Listed listed = read_listed(reader);
    const ByteSpan data = locate(file.first(directory.offset), listed);
    taken.emplace_back(listed.offset, data.data() + data.size() - file.data());
    if (listed.crc != 0) checksums_.emplace_back(data, listed.crc);
    if (!entries_.emplace(listed.name, data).second) {
      throw FormatError("the zip archive has '" + listed.name + "' twice");
    }
  }
  if (reader.left() != 0) throw FormatError("the zip directory holds more than its entries");
  std::sort(taken.begin(), taken.end());
  if (!taken.empty() && taken.front().first != 0) {
    throw FormatError("the zip archive begins with bytes that are no entry");
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
      throw FormatError("the data of the zip entry '" + name + "' is not what its CRC-32 says");
    }
  }
}

}  // namespace accel
