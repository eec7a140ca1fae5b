#include "data/datasets/label_map.h"

#include <algorithm>
#include <charconv>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr int64_t kMaxLabel = 1'000'000;

std::optional<int64_t> own_number(std::string_view label) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(label.begin(), label.end(), value);
  const bool canonical = label.size() == 1 || !label.starts_with('0');
  if (error != std::errc() || end != label.end() || !canonical) return std::nullopt;
  return value >= 0 && value <= kMaxLabel ? std::optional(value) : std::nullopt;
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
    return given({labels.begin(), labels.end()}, "labels");
  }
  LabelMap map;
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
