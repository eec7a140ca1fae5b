#include "formats/archive/compression.h"

#include <algorithm>
#include <memory>
#include <new>

#include <zlib.h>

#include "core/base/array.h"
#include "core/base/error.h"
#include "core/base/shared_library.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr size_t kMaxChunk = size_t{1} << 30;  // zlib counts in 32 bits
constexpr size_t kFirstOutput = size_t{64} << 10;

/// A zlib stream over memory.
class Inflater {
 public:
  Inflater(std::span<const std::byte> packed, const std::string& name)
      : packed_(packed), name_(name) {
    // 16: gzip framing, checked with its CRC.
    if (::inflateInit2(&stream_, MAX_WBITS + 16) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { ::inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Inflates into `out` and returns the count of bytes, short at the end of the last member only.
  size_t read(std::span<std::byte> out) {
    size_t written = 0;
    while (written < out.size() && !ended_) written += step(out.subspan(written));
    return written;
  }

 private:
  size_t step(std::span<std::byte> out) {
    const size_t in_size = std::min(packed_.size(), kMaxChunk);
    const size_t out_size = std::min(out.size(), kMaxChunk);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed_.data()));
    stream_.avail_in = static_cast<uInt>(in_size);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out_size);
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    packed_ = packed_.subspan(in_size - stream_.avail_in);
    if (result == Z_STREAM_END) {
      end_member();
    } else if (result == Z_BUF_ERROR && packed_.empty()) {
      throw DataError(text("'{}' is truncated: its gzip stream has no end", name_));
    } else if (result != Z_OK) {
      const std::string why = stream_.msg ? stream_.msg : "no reason given";
      throw DataError(text("'{}' is damaged: {}", name_, why));
    }
    return out_size - stream_.avail_out;
  }

  void end_member() {
    if (is_gzip(packed_)) {
      ::inflateReset(&stream_);
      return;
    }
    // Zero padding of tape blocks is allowed.
    if (!std::all_of(packed_.begin(), packed_.end(),
                     [](std::byte b) { return b == std::byte{}; })) {
      throw DataError(text("'{}' has bytes after its gzip stream that are not gzip", name_));
    }
    ended_ = true;
  }

  z_stream stream_ = {};
  std::span<const std::byte> packed_;
  const std::string& name_;
  bool ended_ = false;
};

/// Functions of libzstd, as declared in zstd.h.
struct Zstd {
  size_t (*decompress)(void* to, size_t room, const void* from, size_t size) = nullptr;
  unsigned (*is_error)(size_t code) = nullptr;
  const char* (*error_name)(size_t code) = nullptr;
};

Zstd load_zstd(const std::string& name) {
  SharedLibrary library("libzstd.so.1");
  Zstd out;
  if (library.find("ZSTD_decompress", out.decompress) &&
      library.find("ZSTD_isError", out.is_error) &&
      library.find("ZSTD_getErrorName", out.error_name)) {
    return out;
  }
  throw DataError(
      text("'{}' is compressed with zstd, but libzstd cannot be loaded: {}", name, library.error()),
      "install the package libzstd1");
}

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

std::vector<std::byte> gunzip_start(std::span<const std::byte> packed, size_t count,
                                    const std::string& name) {
  std::vector<std::byte> out(count);
  out.resize(Inflater(packed, name).read(out));
  return out;
}

SharedBytes gunzip(std::span<const std::byte> packed, size_t cap, const std::string& name) {
  Inflater inflater(packed, name);
  size_t room = std::min(cap, std::max(kFirstOutput, packed.size() * 4));
  Array out(DType::kU8, {static_cast<int64_t>(room)});
  size_t written = inflater.read({out.mutable_data(), room});
  while (written == room && room < cap) {
    room = room < cap / 2 ? room * 2 : cap;
    Array larger(DType::kU8, {static_cast<int64_t>(room)});
    std::copy_n(out.data(), written, larger.mutable_data());
    out = std::move(larger);
    written += inflater.read({out.mutable_data() + written, room - written});
  }
  std::byte extra;
  if (written == room && inflater.read({&extra, 1}) != 0) {
    throw DataError(text("'{}' inflates to more than {} bytes", name, cap));
  }
  return {{out.data(), written}, out.owner()};
}

SharedBytes map_or_gunzip(const std::string& path, size_t cap) {
  SharedBytes file = map_file(path);
  return is_gzip(file.view) ? gunzip(file.view, cap, path) : file;
}

std::vector<std::byte> unzstd(std::span<const std::byte> packed, size_t size,
                              const std::string& name) {
  const Zstd zstd = load_zstd(name);
  std::vector<std::byte> out(size);
  const size_t written = zstd.decompress(out.data(), out.size(), packed.data(), packed.size());
  if (zstd.is_error(written)) {
    throw DataError(text("'{}' is damaged: {}", name, zstd.error_name(written)));
  }
  if (written != size) {
    throw DataError(text("'{}' decompresses to {} bytes, {} wanted", name, written, size));
  }
  return out;
}

}  // namespace accel
