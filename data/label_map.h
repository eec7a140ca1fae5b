// Class labels as texts on one side and as numbers from 0 on the other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

/// Texts found in a file; looked up without a copy.
using TextSet = std::set<std::string, std::less<>>;

/// Which number a label has. Labels that are all whole numbers from 0 are their own numbers, so
/// that a file that lacks one still agrees with the others; all other labels are numbered in sorted
/// order.
class LabelMap {
 public:
  /// Labels in the order of their numbers. Throws Error (recipe) naming `option` for a label given
  /// twice.
  static LabelMap given(const std::vector<std::string>& names, const std::string& option);
  /// Labels as they were found.
  static LabelMap found(const TextSet& labels);

  /// Null for a label that is none of these.
  std::optional<int64_t> find(std::string_view label) const;
  /// Labels to tell apart.
  int64_t count() const { return count_; }
  /// In the order of their numbers; empty when labels are their own numbers.
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::map<std::string, int64_t, std::less<>> numbers_;
  int64_t count_ = 0;
};

}  // namespace accel
