// SentencePiece's table of characters that are replaced: a double-array trie, and the replacements.
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
  /// Throws FormatError for bytes that are no such table, and for replacements that are no UTF-8.
  explicit CharacterMap(std::string_view bytes);

  struct Match {
    size_t length = 0;  ///< of what is replaced, in bytes
    std::string_view replacement;
  };

  /// The shortest, and the longest, that `text` begins with. Nothing for a place that no
  /// replacement begins at.
  std::optional<Match> shortest(std::string_view text) const { return find(text, false); }
  std::optional<Match> longest(std::string_view text) const { return find(text, true); }

 private:
  std::optional<Match> find(std::string_view text, bool longest) const;
  std::optional<std::string_view> replacement_at(uint32_t place) const;

  std::vector<uint32_t> units_;  ///< of a Darts trie: a label, a leaf flag and an offset in each
  std::string replacements_;     ///< a NUL behind each
};

}  // namespace accel
