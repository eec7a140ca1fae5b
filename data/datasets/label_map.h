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

/// Maps labels to class numbers. Labels that are all integers from 0 map to themselves, so that
/// files with different subsets agree; other labels are numbered in sorted order.
class LabelMap {
 public:
  /// Labels in the order of their numbers. Throws Error (recipe) naming `option` for a duplicate.
  static LabelMap given(const std::vector<std::string>& names, const std::string& option);
  /// Labels found in data.
  static LabelMap found(const TextSet& labels);

  /// None for an unknown label.
  std::optional<int64_t> find(std::string_view label) const;
  /// Number of classes.
  int64_t count() const { return count_; }
  /// In the order of their numbers; empty if labels map to themselves.
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::map<std::string, int64_t, std::less<>> numbers_;
  int64_t count_ = 0;
};

}  // namespace accel
