#include "runner/formats/zip_member.h"

#include <algorithm>
#include <optional>

#include <zlib.h>

#include "core/array.h"
#include "runner/formats/gzip.h"

namespace accel {
namespace {

constexpr uint32_t kMemberHeader = 0x04034b50;
constexpr uint32_t kListingHeader = 0x02014b50;
constexpr uint32_t kListingEnd = 0x06054b50;
constexpr size_t kListingEndBytes = 22;
constexpr size_t kLongestComment = 0xffff;
constexpr uint16_t kEncryptedFlag = 1;
constexpr uint16_t kStored = 0, kDeflated = 8;

struct Member {
  uint16_t flags, method;
  uint32_t crc, packed, bytes, offset;
};

/// The directory's entries, one behind the other; a comment may stand at the end of the archive.
ByteSpan find_listing(ByteSpan archive) {
  const size_t last = archive.size() - std::min(archive.size(), kListingEndBytes);
  const size_t first = last - std::min(last, kLongestComment);
  for (size_t at = last; archive.size() >= kListingEndBytes; --at) {
    ByteReader end(archive.subspan(at), "the end record");
    if (end.little<uint32_t>() == kListingEnd) {
      end.take(8);  // parts, entries
      const auto bytes = end.little<uint32_t>(), offset = end.little<uint32_t>();
      if (offset > at || bytes > at - offset) {
        throw FormatError("the zip directory does not end where the end record begins");
      }
      return archive.subspan(offset, bytes);
    }
    if (at == first) break;
  }
  throw FormatError("no zip archive: the end record is missing");
}

std::optional<Member> find_member(ByteSpan archive, const std::string& name) {
  ByteReader listing(find_listing(archive), "the zip directory");
  while (listing.left() > 0) {
    if (listing.little<uint32_t>() != kListingHeader) {
      throw FormatError("the zip directory is damaged");
    }
    listing.take(4);  // versions
    Member member = {};
    member.flags = listing.little<uint16_t>();
    member.method = listing.little<uint16_t>();
    listing.take(4);  // time, date
    member.crc = listing.little<uint32_t>();
    member.packed = listing.little<uint32_t>();
    member.bytes = listing.little<uint32_t>();
    const auto name_bytes = listing.little<uint16_t>(), extra_bytes = listing.little<uint16_t>();
    const auto comment_bytes = listing.little<uint16_t>();
    listing.take(8);  // part number, attributes
    member.offset = listing.little<uint32_t>();
    const bool found = as_text(listing.take(name_bytes)) == name;
    listing.take(size_t{extra_bytes} + comment_bytes);
    if (found) return member;
  }
  return std::nullopt;
}

/// The entry's bytes as they are in the archive.
ByteSpan packed_bytes(ByteSpan archive, const Member& member, const std::string& what) {
  if (member.offset > archive.size()) throw FormatError(what + " is outside the file");
  ByteReader reader(archive.subspan(member.offset), what);
  if (reader.little<uint32_t>() != kMemberHeader) {
    throw FormatError(what + " has no local header");
  }
  reader.take(22);  // what the directory says too
  const auto name_bytes = reader.little<uint16_t>(), extra_bytes = reader.little<uint16_t>();
  reader.take(size_t{name_bytes} + extra_bytes);
  return reader.take(member.packed);
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

SharedBytes unzip_member(ByteSpan archive, const std::string& name, size_t cap) {
  const std::optional<Member> member = find_member(archive, name);
  const std::string what = "the zip entry '" + name + "'";
  if (!member) throw FormatError("the zip archive has no '" + name + "'");
  if (member->flags & kEncryptedFlag) throw FormatError(what + " is encrypted");
  if (member->method != kStored && member->method != kDeflated) {
    throw FormatError(what + " is packed by method " + std::to_string(member->method) +
                      ", not stored or deflated");
  }
  if (member->bytes > cap) {
    throw FormatError(what + " claims " + std::to_string(member->bytes) + " bytes, at most " +
                      std::to_string(cap) + " are read");
  }
  const ByteSpan packed = packed_bytes(archive, *member, what);
  const bool stored = member->method == kStored;
  const bool possible =
      stored ? packed.size() == member->bytes : member->bytes / kMaxInflation <= packed.size();
  if (!possible) throw FormatError(what + " cannot have the size it claims");
  Array out(DType::kU8, {static_cast<int64_t>(member->bytes)});
  const std::span<std::byte> bytes(out.mutable_data(), member->bytes);
  if (stored) std::copy(packed.begin(), packed.end(), bytes.begin());
  const bool whole = stored || inflates_to(packed, bytes);
  const auto* begin = reinterpret_cast<const Bytef*>(bytes.data());
  if (!whole || ::crc32_z(0, begin, bytes.size()) != member->crc) {
    throw FormatError(what + " is damaged: its content is not what its CRC-32 says");
  }
  return {{out.data(), member->bytes}, out.owner()};
}

}  // namespace accel
