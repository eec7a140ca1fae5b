// The normalizer 'Precompiled': a double-array trie of what is replaced, and the replacements.
#include <optional>

#include "runner/formats/base64.h"
#include "runner/formats/format_error.h"
#include "runner/tokenizers/character_map.h"
#include "runner/tokenizers/normalizer.h"
#include "runner/tokenizers/unicode.h"

namespace accel {
namespace {

// A longer cluster is looked up character by character.
constexpr size_t kLongestCluster = 5;

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(CharacterMap map) : map_(std::move(map)) {}

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
    const auto found = map_.shortest(key);
    if (!found) return false;
    out += found->replacement;
    return true;
  }

  CharacterMap map_;
};

}  // namespace

std::unique_ptr<Normalizer> read_precompiled(const JsonPlace& place) {
  place.only({"precompiled_charsmap"});
  const JsonPlace map = place.at("precompiled_charsmap");
  const std::optional<std::string> bytes = base64_decode(map.text());
  try {
    return std::make_unique<Precompiled>(CharacterMap(bytes.value_or("")));
  } catch (const FormatError& error) {
    map.refuse(error.what());
  }
}

}  // namespace accel
