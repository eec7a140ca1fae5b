#include "formats/archive/tar.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/text.h"
#include "formats/archive/compression.h"

namespace accel {
namespace {

constexpr size_t kTarBlock = 512;
constexpr size_t kMaxLongName = size_t{1} << 20;

/// Values of pax or GNU records for the next member.
struct Overrides {
  std::optional<std::string> path;
  std::optional<size_t> size;
};

class TarReader {
 public:
  TarReader(std::span<const std::byte> archive, const std::string& name)
      : archive_(archive), name_(name) {}

  std::vector<TarMember> members() {
    std::vector<TarMember> all;
    Overrides next;
    while (const auto block = header()) {
      const char type = static_cast<char>((*block)[156]);
      const bool real = type != 'x' && type != 'g' && type != 'L' && type != 'K';
      const size_t size = real && next.size ? *next.size : number(block->subspan(124, 12));
      const std::span<const std::byte> content = take(size);
      if (type == 'x') {
        read_pax(content, next);
      } else if (type == 'L') {
        next.path = long_name(content);
      } else if (real) {
        if (type == 'S') fail("is a sparse file, which is not supported");
        if (type == '0' || type == '\0' || type == '7')
          all.push_back(member(*block, content, next));
        next = {};
      }
    }
    return all;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw DataError(text("'{}': the member at byte {} {}", name_, at_, problem));
  }

  /// The next header block; null at the end of the archive.
  std::optional<std::span<const std::byte>> header() {
    position_ = std::min(position_, archive_.size());
    at_ = position_;
    if (archive_.size() - position_ < kTarBlock) {
      if (position_ != archive_.size()) fail("is truncated");
      return std::nullopt;
    }
    const auto block = archive_.subspan(position_, kTarBlock);
    if (std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{}; })) {
      return std::nullopt;
    }
    check_sum(block);
    position_ += kTarBlock;
    return block;
  }

  void check_sum(std::span<const std::byte> block) const {
    size_t sum = 0;
    for (size_t i = 0; i < kTarBlock; ++i) {
      sum += i >= 148 && i < 156 ? size_t{' '} : static_cast<size_t>(block[i]);
    }
    if (sum != number(block.subspan(148, 8))) {
      fail("has a damaged header: its checksum does not match");
    }
  }

  std::span<const std::byte> take(size_t size) {
    if (size > archive_.size() - position_) {
      fail(text("claims {} bytes, but only {} follow", size, archive_.size() - position_));
    }
    const auto content = archive_.subspan(position_, size);
    const size_t blocks = size / kTarBlock + (size % kTarBlock != 0);
    position_ += blocks * kTarBlock;
    return content;
  }

  /// A field in octal, or in base 256 when its first bit is set.
  size_t number(std::span<const std::byte> field) const {
    size_t value = 0;
    if ((field[0] & std::byte{0x80}) != std::byte{}) {
      for (size_t i = 0; i < field.size(); ++i) {
        const size_t byte = static_cast<size_t>(field[i]) & (i == 0 ? 0x7f : 0xff);
        if (value >> 55 != 0) fail("has a number beyond 63 bits");
        value = value << 8 | byte;
      }
      return value;
    }
    const std::string_view digits = string(field);
    const size_t first = std::min(digits.find_first_not_of(' '), digits.size());
    const size_t end = std::min(digits.find(' ', first), digits.size());
    for (const char digit : digits.substr(first, end - first)) {
      if (digit < '0' || digit > '7') fail("has a number that is not octal");
      value = value << 3 | static_cast<size_t>(digit - '0');
    }
    return value;
  }

  static std::string_view string(std::span<const std::byte> field) {
    const std::string_view value(reinterpret_cast<const char*>(field.data()), field.size());
    return value.substr(0, value.find('\0'));
  }

  std::string long_name(std::span<const std::byte> content) const {
    if (content.size() > kMaxLongName) fail("has a name of more than 1 MiB");
    return std::string(string(content));
  }

  /// Records of the form "27 path=some/name\n", where 27 counts the whole record.
  void read_pax(std::span<const std::byte> content, Overrides& next) const {
    if (content.size() > kMaxLongName) fail("has pax records of more than 1 MiB");
    std::string_view records(reinterpret_cast<const char*>(content.data()), content.size());
    while (!records.empty() && records[0] != '\0') {
      size_t length = 0;
      const auto [after, error] =
          std::from_chars(records.data(), records.data() + records.size(), length);
      const size_t digits = static_cast<size_t>(after - records.data());
      if (error != std::errc() || length > records.size() || length < digits + 2 ||
          records[digits] != ' ' || records[length - 1] != '\n') {
        fail("has damaged pax records");
      }
      use_pax(records.substr(digits + 1, length - digits - 2), next);
      records.remove_prefix(length);
    }
  }

  void use_pax(std::string_view record, Overrides& next) const {
    if (record.starts_with("path=")) next.path = std::string(record.substr(5));
    if (record.starts_with("GNU.sparse.")) fail("is a sparse file, which is not supported");
    if (!record.starts_with("size=")) return;
    const std::string_view digits = record.substr(5);
    size_t size = 0;
    const auto [after, error] = std::from_chars(digits.begin(), digits.end(), size);
    if (error != std::errc() || after != digits.end()) fail("has damaged pax records");
    next.size = size;
  }

  TarMember member(std::span<const std::byte> block, std::span<const std::byte> content,
                   const Overrides& next) const {
    std::string path(string(block.first(100)));
    const bool ustar = string(block.subspan(257, 6)) == "ustar";  // GNU's own magic has no prefix
    const std::string_view prefix = ustar ? string(block.subspan(345, 155)) : std::string_view();
    if (!prefix.empty()) path = std::string(prefix) + "/" + path;
    if (next.path) path = *next.path;
    if (path.starts_with("./")) path.erase(0, 2);
    const size_t offset = static_cast<size_t>(content.data() - archive_.data());
    return {std::move(path), offset, content.size()};
  }

  std::span<const std::byte> archive_;
  const std::string& name_;
  size_t position_ = 0;
  size_t at_ = 0;  ///< of the current header, for messages
};

}  // namespace

std::vector<TarMember> index_tar(std::span<const std::byte> archive, const std::string& name) {
  if (is_gzip(archive)) {
    throw DataError(text("'{}' is compressed, which does not allow random access", name),
                    "decompress it once: gunzip keeps the .tar");
  }
  return TarReader(archive, name).members();
}

}  // namespace accel
