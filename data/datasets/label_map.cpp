#include "data/datasets/label_map.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr int64_t kMaxLabel = 1'000'000;

/// The number that a label without leading zeros is, with spaces around it or not.
std::optional<double> number_of(std::string_view label) {
  const size_t first = label.find_first_not_of(" \t");
  if (first == label.npos) return std::nullopt;
  label = label.substr(first, label.find_last_not_of(" \t") + 1 - first);
  const bool padded = label.size() > 1 && label[0] == '0' && label[1] != '.';
  double value = 0;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), value);
  const bool whole = error == std::errc() && end == label.data() + label.size();
  return whole && !padded && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> own_number(std::string_view label) {
  const std::optional<double> value = number_of(label);
  const bool fits = value && *value == std::floor(*value) && *value >= 0 && *value <= kMaxLabel;
  return fits ? std::optional(static_cast<int64_t>(*value)) : std::nullopt;
}

void check_spellings(const TextSet& labels) {
  std::map<double, std::string> numbers;
  for (const std::string& label : labels) {
    const std::optional<double> number = number_of(label);
    if (!number) continue;
    const auto [other, fresh] = numbers.emplace(*number, label);
    if (fresh) continue;
    throw DataError(
        text("the labels '{}' and '{}' are one number in two spellings", other->second, label),
        "write it the same way in all rows, or list the texts in 'labels'");
  }
}

}  // namespace

LabelMap LabelMap::given(const std::vector<std::string>& names, const std::string& option) {
  LabelMap map;
  map.names_ = names;
  for (const std::string& name : names) {
    if (!map.numbers_.emplace(name, map.count_++).second) {
      throw Error(ExitCode::kRecipe, text("'{}' lists '{}' twice", option, name));
    }
  }
  return map;
}

LabelMap LabelMap::found(const TextSet& labels) {
  if (labels.empty() || !std::all_of(labels.begin(), labels.end(), own_number)) {
    check_spellings(labels);
    LabelMap map = given({labels.begin(), labels.end()}, "labels");
    map.is_found_ = true;
    return map;
  }
  LabelMap map;
  map.is_found_ = true;
  for (const std::string& label : labels) {
    map.numbers_.emplace(label, *own_number(label));
    map.count_ = std::max(map.count_, *own_number(label) + 1);
  }
  return map;
}

std::optional<int64_t> LabelMap::find(std::string_view label) const {
  const auto found = numbers_.find(label);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace accel
