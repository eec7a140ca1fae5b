// The normalizer 'Precompiled': a double-array trie of what is replaced, and the replacements.
#include <cstring>
#include <optional>

#include "runner/formats/base64.h"
#include "runner/formats/bytes.h"
#include "runner/formats/format_error.h"
#include "runner/tokenizers/normalizer.h"
#include "runner/tokenizers/unicode.h"

namespace accel {
namespace {

// A longer cluster is looked up character by character.
constexpr size_t kLongestCluster = 5;

/// The units of a Darts trie: a label, a leaf flag and an offset in 32 bits each.
class DartsTrie {
 public:
  explicit DartsTrie(std::vector<uint32_t> units) : units_(std::move(units)) {}

  /// The value of the shortest key that `text` begins with.
  std::optional<uint32_t> shortest(std::string_view text) const {
    size_t at = 0;
    if (units_.empty()) return std::nullopt;
    at ^= offset(units_[0]);
    for (const char c : text) {
      const auto label = static_cast<unsigned char>(c);
      if (label == 0) return std::nullopt;
      at ^= label;
      if (at >= units_.size() || (units_[at] & kLabelBits) != label) return std::nullopt;
      const uint32_t unit = units_[at];
      at ^= offset(unit);
      if ((unit >> 8 & 1) == 0) continue;
      if (at >= units_.size()) return std::nullopt;
      return units_[at] & 0x7fffffff;
    }
    return std::nullopt;
  }

 private:
  static constexpr uint32_t kLabelBits = 0x800000ff;
  static size_t offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

  std::vector<uint32_t> units_;
};

class Precompiled final : public Normalizer {
 public:
  Precompiled(DartsTrie trie, std::string replacements)
      : trie_(std::move(trie)), replacements_(std::move(replacements)) {}

  void apply(NormalText& text) const override {
    std::string out;
    for (size_t at = 0; at < text.text.size();) {
      const size_t length = grapheme_length(text.text, at);
      const std::string_view cluster(text.text.data() + at, length);
      at += length;
      if (length <= kLongestCluster && add_replacement(cluster, out)) continue;
      for (size_t i = 0; i < length;) {
        const size_t bytes = character_at(cluster, i).bytes;
        const std::string_view character = cluster.substr(i, bytes);
        if (!add_replacement(character, out)) out += character;
        i += bytes;
      }
    }
    text.text = std::move(out);
  }

 private:
  /// False when there is none.
  bool add_replacement(std::string_view key, std::string& out) const {
    const auto place = trie_.shortest(key);
    if (!place || *place >= replacements_.size()) return false;
    if ((static_cast<unsigned char>(replacements_[*place]) & 0xc0) == 0x80) return false;
    out += replacements_.c_str() + *place;  // ends at a NUL
    return true;
  }

  DartsTrie trie_;
  std::string replacements_;
};

std::unique_ptr<Normalizer> unpacked(const std::string& map) {
  ByteReader reader(as_bytes(map), "");
  const auto bytes = reader.little<uint32_t>();
  if (bytes % sizeof(uint32_t) != 0 || bytes > reader.left()) {
    throw FormatError("is no table of SentencePiece's");
  }
  std::vector<uint32_t> units(bytes / sizeof(uint32_t));
  for (uint32_t& unit : units) unit = reader.little<uint32_t>();
  const std::string replacements(as_text(reader.take(reader.left())));
  for (size_t at = 0; at < replacements.size(); at += std::strlen(replacements.c_str() + at) + 1) {
    const char* const text = replacements.c_str() + at;
    if (lossy_utf8(text) != text) throw FormatError("holds a replacement that is no UTF-8");
  }
  return std::make_unique<Precompiled>(DartsTrie(std::move(units)), replacements);
}

}  // namespace

std::unique_ptr<Normalizer> read_precompiled(const JsonPlace& place) {
  place.only({"precompiled_charsmap"});
  const JsonPlace map = place.at("precompiled_charsmap");
  const std::optional<std::string> bytes = base64_decode(map.text());
  try {
    if (!bytes || bytes->size() < sizeof(uint32_t)) {
      throw FormatError("is no table of SentencePiece's");
    }
    return unpacked(*bytes);
  } catch (const FormatError& error) {
    map.refuse(error.what());
  }
}

}  // namespace accel
