// Tokens and their ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace accel {

/// An id of a file's is at most kIdRoom above what its number of tokens would need, so that a small
/// file cannot ask for a large table.
constexpr int64_t kIdRoom = 100'000;

/// Tokens by id and ids by token. Moved, never copied: the views point into it.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  /// Room for ids below `ids`; once, before the first token.
  void reserve(size_t ids);

  /// Throws FormatError when the id has another token, or the token another id.
  void add(const std::string& token, int32_t id);

  std::optional<int32_t> find(std::string_view token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }

  /// Null when the id belongs to none.
  const std::string* token(int64_t id) const;

  /// The largest id and one.
  int64_t size() const { return size_; }
  /// How many tokens there are.
  size_t count() const { return ids_.size(); }

 private:
  std::vector<std::string> tokens_;
  std::vector<bool> taken_;
  std::unordered_map<std::string_view, int32_t> ids_;
  int64_t size_ = 0;
};

}  // namespace accel
