#include "formats/records/text_encoding.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace accel {
namespace {

constexpr uint32_t kHigh = 0xd800, kLow = 0xdc00, kEnd = 0xe000, kBeyond = 0x10000;

void append(std::string& out, uint32_t code) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | (code >> 6));
    tail(0);
  } else if (code < kBeyond) {
    out += static_cast<char>(0xe0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

/// Other bytes would become U+FFFD, which models train on.
void require_utf8(std::string_view bytes, const std::string& name) {
  if (is_utf8(bytes)) return;
  size_t at = 0;
  for (size_t length; (length = character_length(bytes, at)) > 0;) at += length;
  const auto line = std::count(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(at), '\n') + 1;
  throw DataError(text("{}:{} is not UTF-8: byte {} of the file", name, line, at),
                  text("convert it, such as by 'iconv -f latin1 -t utf-8 {} > NEW'", name));
}

}  // namespace

SharedBytes as_utf8(SharedBytes file, const std::string& name) {
  const auto byte = [&](size_t at) { return static_cast<uint32_t>(file.view[at]); };
  const size_t size = file.view.size();
  const bool little = size >= 2 && byte(0) == 0xff && byte(1) == 0xfe;
  const bool big = size >= 2 && byte(0) == 0xfe && byte(1) == 0xff;
  if (!little && !big) {
    require_utf8(as_text(file.view), name);
    if (as_text(file.view).starts_with(kByteOrderMark)) {
      file.view = file.view.subspan(kByteOrderMark.size());
    }
    return file;
  }
  const auto unit = [&](size_t at) {
    return little ? byte(at) | byte(at + 1) << 8 : byte(at) << 8 | byte(at + 1);
  };
  const auto refuse = [&](size_t at) {
    throw DataError(text("'{}' is not valid UTF-16 at byte {}", name, at), "save it as UTF-8");
  };
  if (size % 2 != 0) refuse(size - 1);
  auto out = std::make_shared<std::string>();
  out->reserve(size);
  for (size_t at = 2; at < size; at += 2) {
    uint32_t code = unit(at);
    if (code >= kLow && code < kEnd) refuse(at);
    if (code >= kHigh && code < kLow) {
      const uint32_t low = at + 4 <= size ? unit(at + 2) : 0;
      if (low < kLow || low >= kEnd) refuse(at);
      code = kBeyond + ((code - kHigh) << 10) + (low - kLow);
      at += 2;
    }
    append(*out, code);
  }
  const std::span<const std::byte> view = std::as_bytes(std::span(*out));
  return {view, std::move(out)};
}

}  // namespace accel
