// Mapping of class labels to numbers.
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

/// Labels of a file; supports lookup without a copy.
using TextSet = std::set<std::string, std::less<>>;

/// Maps labels to class numbers. Labels that are all integers from 0, also written as "1.0" or "
/// 1", map to themselves, so that files with different subsets agree; other labels are numbered in
/// sorted order.
class LabelMap {
 public:
  /// Labels in the order of their numbers. Throws Error (recipe) naming `option` for a duplicate.
  static LabelMap given(const std::vector<std::string>& names, const std::string& option);
  /// Labels found in data. Throws DataError for a number in two spellings among other labels.
  static LabelMap found(const TextSet& labels);

  /// None for an unknown label.
  std::optional<int64_t> find(std::string_view label) const;
  /// Number of classes.
  int64_t count() const { return count_; }
  /// In the order of their numbers; empty if labels map to themselves.
  const std::vector<std::string>& names() const { return names_; }
  /// Whether it is of found().
  bool is_found() const { return is_found_; }

 private:
  std::vector<std::string> names_;
  std::map<std::string, int64_t, std::less<>> numbers_;
  int64_t count_ = 0;
  bool is_found_ = false;
};

}  // namespace accel
