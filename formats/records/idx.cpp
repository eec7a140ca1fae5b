#include "formats/records/idx.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/text.h"
#include "formats/archive/compression.h"
#include "formats/untrusted.h"

namespace accel {
namespace {

constexpr size_t kMaxDims = 8;
constexpr size_t kLargestHeader = 4 + 4 * kMaxDims;

struct IdxHeader {
  DType type;
  Shape shape;
  size_t start;    ///< of the values in the file
  size_t payload;  ///< bytes of all values

  size_t end() const { return start + payload; }
};

std::optional<DType> idx_type(std::byte code) {
  switch (static_cast<uint8_t>(code)) {
    case 0x08:
      return DType::kU8;
    case 0x09:
      return DType::kI8;
    case 0x0b:
      return DType::kI16;
    case 0x0c:
      return DType::kI32;
    case 0x0d:
      return DType::kF32;
    case 0x0e:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

int64_t big_endian(std::span<const std::byte> bytes) {
  int64_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | static_cast<int64_t>(byte);
  return value;
}

IdxHeader parse_header(std::span<const std::byte> start, const std::string& name) {
  if (start.size() < 4 || start[0] != std::byte{} || start[1] != std::byte{}) {
    throw DataError(text("'{}' is not an IDX file: it does not start with two zero bytes", name));
  }
  const std::optional<DType> type = idx_type(start[2]);
  if (!type) {
    throw DataError(
        text("'{}' has the unsupported IDX value type {}", name, static_cast<int>(start[2])));
  }
  const size_t dims = static_cast<size_t>(start[3]);
  if (dims == 0 || dims > kMaxDims) {
    throw DataError(text("'{}' has {} dimensions, 1 to 8 wanted", name, dims));
  }
  IdxHeader header{*type, {}, 4 + 4 * dims, 0};
  if (start.size() < header.start) {
    throw DataError(text("'{}' ends inside its IDX header", name));
  }
  for (size_t i = 0; i < dims; ++i) header.shape.push_back(big_endian(start.subspan(4 + 4 * i, 4)));
  const std::optional<size_t> payload = claimed_bytes(header.type, header.shape);
  if (!payload) {
    throw DataError(
        text("'{}' claims the shape {}, which is too large", name, to_string(header.shape)));
  }
  header.payload = *payload;
  return header;
}

[[noreturn]] void refuse_size(const IdxHeader& header, size_t found, const std::string& name) {
  throw DataError(text("'{}' claims {} values of type {}, {} bytes with the header, but has {}",
                       name, to_string(header.shape), name_of(header.type), header.end(), found),
                  "the file is truncated or damaged: copy it again");
}

/// Multi-byte values, converted from big endian.
Array swapped(const IdxHeader& header, std::span<const std::byte> values) {
  Array out(header.type, header.shape);
  const size_t width = size_of(header.type);
  std::byte* to = out.mutable_data();
  for (size_t at = 0; at < values.size(); at += width) {
    std::reverse_copy(values.begin() + at, values.begin() + at + width, to + at);
  }
  return out;
}

}  // namespace

Array parse_idx(const SharedBytes& file, const std::string& name) {
  const IdxHeader header =
      parse_header(file.view.first(std::min(file.view.size(), kLargestHeader)), name);
  if (file.view.size() != header.end()) refuse_size(header, file.view.size(), name);
  const auto values = file.view.subspan(header.start);
  if (size_of(header.type) > 1) return swapped(header, values);
  return Array(header.type, header.shape, values.data(), file.owner);
}

Array read_idx(const std::string& path) {
  const SharedBytes file = map_file(path);
  if (!is_gzip(file.view)) return parse_idx(file, path);
  const IdxHeader header = parse_header(gunzip_start(file.view, kLargestHeader, path), path);
  if (header.payload / kMaxInflation > file.view.size()) {
    throw DataError(text("'{}' claims {} bytes, more than {} bytes of gzip can hold", path,
                         header.end(), file.view.size()));
  }
  return parse_idx(gunzip(file.view, header.end(), path), path);
}

}  // namespace accel
