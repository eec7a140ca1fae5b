#include "text/character_map.h"

#include <cstring>

#include "core/base/bytes.h"
#include "text/unicode.h"

namespace accel {
namespace {

constexpr uint32_t kLabelBits = 0x800000ff;

size_t offset_of(uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200) >> 6);
}

}  // namespace

CharacterMap::CharacterMap(std::string_view bytes) {
  constexpr auto kNoTable = "is not a SentencePiece character map";
  if (bytes.size() < sizeof(uint32_t)) throw FormatError(kNoTable);
  ByteReader reader(as_bytes(bytes), "");
  const auto size = reader.little<uint32_t>();
  if (size % sizeof(uint32_t) != 0 || size > reader.left()) throw FormatError(kNoTable);
  units_.resize(size / sizeof(uint32_t));
  for (uint32_t& unit : units_) unit = reader.little<uint32_t>();
  replacements_ = as_text(reader.take(reader.left()));
  for (size_t at = 0; at < replacements_.size();) {
    const char* const text = replacements_.c_str() + at;
    if (lossy_utf8(text) != text) throw FormatError("has a replacement that is not UTF-8");
    at += std::strlen(text) + 1;
  }
}

std::optional<std::string_view> CharacterMap::replacement_at(uint32_t offset) const {
  if (offset >= replacements_.size()) return std::nullopt;
  if ((static_cast<unsigned char>(replacements_[offset]) & 0xc0) == 0x80) return std::nullopt;
  return replacements_.c_str() + offset;  // ends at a NUL
}

std::optional<CharacterMap::Match> CharacterMap::find(std::string_view text, bool longest) const {
  std::optional<Match> best;
  if (units_.empty()) return best;
  size_t at = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto label = static_cast<unsigned char>(text[i]);
    if (label == 0) break;
    at ^= label;
    if (at >= units_.size() || (units_[at] & kLabelBits) != label) break;
    const uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if ((unit >> 8 & 1) == 0) continue;
    if (at >= units_.size()) break;
    const auto replacement = replacement_at(units_[at] & 0x7fffffff);
    if (replacement) best = Match{i + 1, *replacement};
    if (!longest) break;
  }
  return best;
}

}  // namespace accel
