// Replacement of missing values in the columns of a table.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/codec.h"

namespace accel {

/// What replaces the missing values of a column; `drop` leaves the rows out.
struct FillRule {
  enum class Kind { kMean, kMedian, kMode, kDrop, kConstant };

  Kind kind = Kind::kConstant;
  std::string constant = {};
};

/// "mean", or the constant.
std::string to_string(const FillRule& rule);

/// The option `fill`: one rule for all columns, or rules by column.
struct FillRules {
  std::optional<FillRule> all;
  std::map<std::string, FillRule> columns;

  bool empty() const { return !all && columns.empty(); }
};

template <>
struct Codec<FillRules> {
  static std::string name() {
    return "mean, median, mode, drop or a value, or a section of them by column";
  }
  static std::string json() { return "\"type\": [\"string\", \"number\", \"object\", \"null\"]"; }
  static std::optional<FillRules> read(const Node& node, const std::string& name, Reading& reading);
  static Node write(const FillRules& value);
};

/// Fits the value of one column to the values added, in order.
class FillFit {
 public:
  FillFit(FillRule::Kind kind, bool category) : kind_(kind), category_(category) {}

  void add(double value);
  void add(std::string_view category);
  /// Mean, median or mode of the numbers; of equally frequent ones the smallest. None without
  /// values.
  std::optional<double> number() const;
  /// The most frequent category; of equally frequent ones the first in order.
  std::optional<std::string> category() const;

 private:
  FillRule::Kind kind_;
  bool category_;
  int64_t count_ = 0;
  double sum_ = 0;
  std::vector<double> values_;         ///< for the median
  std::map<double, int64_t> numbers_;  ///< for the mode
  std::map<std::string, int64_t, std::less<>> categories_;
};

}  // namespace accel
