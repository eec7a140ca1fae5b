// Character-level tokens of a UTF-8 text.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

/// Characters are numbered in code point order over the whole text, so that all parts share one
/// numbering. The text must outlive this object.
class Characters {
 public:
  /// Throws DataError naming `path` if the text is not UTF-8.
  Characters(std::string_view text, const std::string& path);

  /// Number of characters in the text.
  int64_t count() const { return count_; }
  /// The distinct characters by number.
  const std::vector<std::string>& names() const { return names_; }
  /// Reads ids.size() character numbers from position `first`. Thread-safe.
  void read(int64_t first, std::span<int64_t> ids) const;

 private:
  /// The bytes of a character as an integer that sorts in code point order.
  using Key = uint32_t;

  Key key_at(size_t at) const;
  int64_t id_of(Key key) const;

  std::string_view text_;
  int64_t count_ = 0;
  std::vector<size_t> marks_;           // byte offset of every kMarkEvery-th character
  std::array<bool, 128> present_ = {};  // occurring ASCII characters
  std::array<int64_t, 128> ascii_ = {};
  std::vector<Key> rare_;  // other characters, sorted
  std::vector<std::string> names_;
};

}  // namespace accel
