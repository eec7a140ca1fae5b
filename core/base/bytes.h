// Byte spans: sinks for writers and a bounds-checked reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/base/format_error.h"
#include "core/base/text.h"

namespace accel {

using ByteSpan = std::span<const std::byte>;

/// Receives the bytes of a file in order. An exception ends the writing.
using ByteSink = std::function<void(ByteSpan)>;

inline ByteSpan as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

inline std::string_view as_text(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Appends a number as little-endian bytes.
template <class T>
void put_little(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out += static_cast<char>(static_cast<std::make_unsigned_t<T>>(value) >> (8 * i));
  }
}

/// Reads integers and byte spans from the front of a span.
class ByteReader {
 public:
  /// `what` names the bytes in errors: "the zip directory".
  ByteReader(ByteSpan bytes, std::string what) : bytes_(bytes), what_(std::move(what)) {}

  size_t left() const { return bytes_.size(); }

  /// Throws FormatError when fewer bytes are left.
  ByteSpan take(size_t count) {
    if (count > bytes_.size()) {
      throw FormatError(
          text("{} ends early: {} more bytes wanted, {} are left", what_, count, bytes_.size()));
    }
    const ByteSpan taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

  /// A little-endian number.
  template <class T>
  T little() {
    const ByteSpan raw = take(sizeof(T));
    std::make_unsigned_t<T> value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value |= static_cast<std::make_unsigned_t<T>>(std::to_integer<uint64_t>(raw[i]) << (8 * i));
    }
    return static_cast<T>(value);
  }

 private:
  ByteSpan bytes_;
  std::string what_;
};

}  // namespace accel
