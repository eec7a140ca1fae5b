#include "runner/formats/gzip.h"

#include <algorithm>
#include <memory>

#include <zlib.h>

#include "core/array.h"
#include "core/error.h"

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
    if (::inflateInit2(&stream_, MAX_WBITS + 16) != Z_OK) {
      throw Error(ExitCode::kMemory, "no memory to inflate '" + name + "'");
    }
  }
  ~Inflater() { ::inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Fills `out` and returns how much of it; less than all of it at the end of the last member.
  size_t read(std::span<std::byte> out) {
    size_t made = 0;
    while (made < out.size() && !ended_) made += step(out.subspan(made));
    return made;
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
      throw DataError("'" + name_ + "' is cut short: its gzip stream has no end");
    } else if (result != Z_OK) {
      const std::string why = stream_.msg ? stream_.msg : "no reason given";
      throw DataError("'" + name_ + "' is damaged: " + why);
    }
    return out_size - stream_.avail_out;
  }

  void end_member() {
    if (is_gzip(packed_)) {
      ::inflateReset(&stream_);
      return;
    }
    // Tape blocks leave zeros behind.
    if (!std::all_of(packed_.begin(), packed_.end(),
                     [](std::byte b) { return b == std::byte{}; })) {
      throw DataError("'" + name_ + "' has bytes after its gzip stream that are not gzip");
    }
    ended_ = true;
  }

  z_stream stream_ = {};
  std::span<const std::byte> packed_;
  const std::string& name_;
  bool ended_ = false;
};

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
  size_t made = inflater.read({out.mutable_data(), room});
  while (made == room && room < cap) {
    room = room < cap / 2 ? room * 2 : cap;
    Array larger(DType::kU8, {static_cast<int64_t>(room)});
    std::copy_n(out.data(), made, larger.mutable_data());
    out = std::move(larger);
    made += inflater.read({out.mutable_data() + made, room - made});
  }
  std::byte beyond;
  if (made == room && inflater.read({&beyond, 1}) != 0) {
    throw DataError("'" + name + "' inflates to more than " + std::to_string(cap) + " bytes");
  }
  return {{out.data(), made}, out.owner()};
}

SharedBytes map_or_gunzip(const std::string& path, size_t cap) {
  SharedBytes file = map_file(path);
  return is_gzip(file.view) ? gunzip(file.view, cap, path) : file;
}

}  // namespace accel
