// Test inputs as bytes and error messages, for tests of formats.
#pragma once

#include <concepts>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include <zlib.h>

#include "core/base/error.h"
#include "core/base/mapped_file.h"

namespace accel {

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// `text` as a file in memory, aligned as a map. `text` must outlive it.
inline SharedBytes shared_bytes(const std::string& text) {
  return {bytes_of(text), nullptr};
}

/// Big-endian 32-bit numbers.
inline std::string big_endian_32(uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
  return out;
}

inline std::string file_content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string gzip_of(const std::string& text) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// what() and hint(), on two lines, of the Error that `act` throws; "" without one.
template <std::invocable Act>
std::string complaint(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return std::string(error.what()) + (error.hint().empty() ? "" : "\n" + error.hint());
  }
  return "";
}

}  // namespace accel
