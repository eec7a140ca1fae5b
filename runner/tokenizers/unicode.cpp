#include "runner/tokenizers/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "core/error.h"
#include "core/utf8.h"
#include "runner/tokenizers/late_characters.h"

namespace accel {
namespace {

const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

utf8proc_category_t category(uint32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool within(uint32_t code, uint32_t first, uint32_t last) {
  return code >= first && code <= last;
}

/// Bytes of a broken character at `at`: its lead and what follows of it properly, at least one.
size_t broken_length(std::string_view bytes, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned lead = byte(at);
  const size_t wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (!within(lead, 0xc2, 0xf4)) return 1;
  unsigned least = 0x80, most = 0xbf;
  if (lead == 0xe0) least = 0xa0;
  if (lead == 0xed) most = 0x9f;
  if (lead == 0xf0) least = 0x90;
  if (lead == 0xf4) most = 0x8f;
  size_t length = 1;
  while (length < wanted && at + length < bytes.size() && within(byte(at + length), least, most)) {
    ++length;
    least = 0x80;
    most = 0xbf;
  }
  return length;
}

/// utf8proc's own form of the text.
std::string mapped_form(std::string_view text, NormalForm form) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return std::string(text);
  int options = UTF8PROC_STABLE;
  options |=
      form == NormalForm::kC || form == NormalForm::kKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kKC || form == NormalForm::kKD) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* made = nullptr;
  const auto size = utf8proc_map(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &made,
                                 static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (size < 0) throw DataError("the text is too long to normalize", "give it in parts");
  return std::string(reinterpret_cast<const char*>(made), static_cast<size_t>(size));
}

}  // namespace

Character character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const auto tail = [&](size_t i) { return static_cast<uint32_t>(byte(i) & 0x3f); };
  if (lead < 0xe0) return {(lead & 0x1f) << 6 | tail(1), 2};
  if (lead < 0xf0) return {(lead & 0x0f) << 12 | tail(1) << 6 | tail(2), 3};
  return {(lead & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}

void append_character(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

std::string lossy_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    if (const size_t length = character_length(bytes, at); length > 0) {
      text.append(bytes.substr(at, length));
      at += length;
    } else {
      text += "\xef\xbf\xbd";
      at += broken_length(bytes, at);
    }
  }
  return text;
}

bool is_white(uint32_t code) {
  if (code < 0x80) return code == ' ' || within(code, '\t', '\r');
  return code == 0x85 || code == 0xa0 || code == 0x1680 || within(code, 0x2000, 0x200a) ||
         code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool is_punctuation(uint32_t code) {
  if (code < 0x80) {
    return within(code, '!', '/') || within(code, ':', '@') || within(code, '[', '`') ||
           within(code, '{', '~');
  }
  const auto kind = category(code);
  const bool known = kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
  return (known && !is_late_category(code)) || code == 0x166d || code == 0x111c9;
}

bool is_numeric(uint32_t code) {
  if (code < 0x80) return within(code, '0', '9');
  const auto kind = category(code);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

bool is_dropped_control(uint32_t code) {
  if (within(code, ' ', '~') || code == '\t' || code == '\n' || code == '\r') return false;
  const auto kind = category(code);
  const bool known = kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF ||
                     kind == UTF8PROC_CATEGORY_CO || code == 0xfffd;
  return known && !is_late_category(code);
}

bool is_ideograph(uint32_t code) {
  return within(code, 0x4e00, 0x9fff) || within(code, 0x3400, 0x4dbf) ||
         within(code, 0x20000, 0x2a6df) || within(code, 0x2a700, 0x2b73f) ||
         within(code, 0x2b740, 0x2b81f) || within(code, 0x2b920, 0x2ceaf) ||
         within(code, 0xf900, 0xfaff) || within(code, 0x2f800, 0x2fa1f);
}

bool is_word_character(uint32_t code) {
  if (code < 0x80) {
    return within(code | 0x20, 'a', 'z') || within(code, '0', '9') || code == '_';
  }
  const auto kind = category(code);
  if (within(code, 0x24b6, 0x24e9) || within(code, 0x1f130, 0x1f149) ||
      within(code, 0x1f150, 0x1f169) || within(code, 0x1f170, 0x1f189)) {
    return true;
  }
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_ME) ||
         kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_PC || within(code, 0x200c, 0x200d);
}

bool is_nonspacing_mark(uint32_t code) {
  if (code < 0x300) return false;
  return (category(code) == UTF8PROC_CATEGORY_MN && !is_late_category(code)) || code == 0x1734;
}

bool is_mark(uint32_t code) {
  if (code < 0x300) return false;
  const auto kind = category(code);
  const bool known = kind >= UTF8PROC_CATEGORY_MN && kind <= UTF8PROC_CATEGORY_ME;
  return (known && !is_late_mark(code)) || within(code, 0x1cf2, 0x1cf3);
}

std::string lower_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const auto [code, bytes] = character_at(text, at);
    at += bytes;
    if (code < 0x80) {
      out += static_cast<char>(within(code, 'A', 'Z') ? code + 0x20 : code);
    } else if (code == 0x130) {
      out += "i\xcc\x87";  // the one letter whose lower case is two
    } else {
      append_character(
          out, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
    }
  }
  return out;
}

std::string normal_form(std::string_view text, NormalForm form) {
  if (form == NormalForm::kC || form == NormalForm::kD) return mapped_form(text, form);
  std::string out;
  size_t behind = 0;
  for (size_t at = 0; at < text.size();) {
    const auto [code, bytes] = character_at(text, at);
    if (code >= 0x80 && is_late_compatibility(code)) {
      out += mapped_form(text.substr(behind, at - behind), form);
      out += text.substr(at, bytes);
      behind = at + bytes;
    }
    at += bytes;
  }
  return out += mapped_form(text.substr(behind), form);
}

size_t grapheme_length(std::string_view text, size_t at) {
  utf8proc_int32_t state = 0;
  auto [code, length] = character_at(text, at);
  size_t end = at + length;
  while (end < text.size()) {
    const Character next = character_at(text, end);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(code),
                                         static_cast<utf8proc_int32_t>(next.code), &state)) {
      break;
    }
    code = next.code;
    end += next.bytes;
  }
  return end - at;
}

}  // namespace accel
