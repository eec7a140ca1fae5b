// A UTF-8 text as a sequence of numbered characters.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

/// Characters are numbered in the order of their code points, over the whole text, so that every
/// part of it has the same numbers. The text stays the caller's.
class Characters {
 public:
  /// Throws DataError, with the name `path`, when the text is not UTF-8.
  Characters(std::string_view text, const std::string& path);

  /// Characters in the text.
  int64_t count() const { return count_; }
  /// The distinct ones; the position of each is its number.
  const std::vector<std::string>& names() const { return names_; }
  /// The numbers of the characters from `first` on, as many as `ids` takes. Safe to share.
  void read(int64_t first, std::span<int64_t> ids) const;

 private:
  /// A character's bytes as one number, which sorts as its code point does.
  using Key = uint32_t;

  Key key_at(size_t at) const;
  int64_t id_of(Key key) const;

  std::string_view text_;
  int64_t count_ = 0;
  std::vector<size_t> marks_;           // where every kMarkEvery-th character begins
  std::array<bool, 128> present_ = {};  // which ASCII characters occur
  std::array<int64_t, 128> ascii_ = {};
  std::vector<Key> rare_;  // the others, sorted
  std::vector<std::string> names_;
};

}  // namespace accel
