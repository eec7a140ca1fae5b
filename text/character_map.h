// SentencePiece's character replacements (precompiled_charsmap): a double-array trie and a text
// pool.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

class CharacterMap {
 public:
  /// Replaces nothing.
  CharacterMap() = default;
  /// Throws FormatError for a damaged table and for replacements that are not UTF-8.
  explicit CharacterMap(std::string_view bytes);

  struct Match {
    size_t length = 0;  ///< replaced bytes
    std::string_view replacement;
  };

  /// The shortest and the longest match at the start of `text`; none without a match.
  std::optional<Match> shortest(std::string_view text) const { return find(text, false); }
  std::optional<Match> longest(std::string_view text) const { return find(text, true); }

 private:
  std::optional<Match> find(std::string_view text, bool longest) const;
  std::optional<std::string_view> replacement_at(uint32_t offset) const;

  std::vector<uint32_t> units_;  ///< of a Darts trie: each a label, a leaf flag and an offset
  std::string replacements_;     ///< each ends with a NUL
};

}  // namespace accel
