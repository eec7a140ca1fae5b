#include "data/datasets/table_fill.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

namespace accel {
namespace {

using RuleKind = FillRule::Kind;

constexpr std::array<std::pair<RuleKind, const char*>, 4> kRuleNames = {
    {{RuleKind::kMean, "mean"},
     {RuleKind::kMedian, "median"},
     {RuleKind::kMode, "mode"},
     {RuleKind::kDrop, "drop"}}};

FillRule rule_of(const std::string& text) {
  for (const auto& [kind, name] : kRuleNames) {
    if (text == name) return {kind, ""};
  }
  return {RuleKind::kConstant, text};
}

Node node_of(const FillRule& rule) {
  return scalar_node(to_string(rule), rule.kind == RuleKind::kConstant &&
                                          !parse_number({rule.constant}).value.has_value());
}

/// The key of the most frequent entry; of equal ones the first.
template <class Counts>
auto most_frequent(const Counts& counts) {
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
}

}  // namespace

std::string to_string(const FillRule& rule) {
  for (const auto& [kind, name] : kRuleNames) {
    if (rule.kind == kind) return name;
  }
  return rule.constant;
}

std::optional<FillRules> Codec<FillRules>::read(const Node& node, const std::string& name,
                                                Reading& reading) {
  FillRules out;
  if (node.null() || (node.scalar() && node.scalar()->text == "none" && !node.scalar()->quoted))
    return out;
  if (const Scalar* scalar = node.scalar()) {
    out.all = rule_of(scalar->text);
    return out;
  }
  if (!node.map()) {
    reading.wrong_type(node, name, Codec::name());
    return std::nullopt;
  }
  bool good = true;
  for (const Node::Entry& entry : *node.map()) {
    const Scalar* scalar = entry.node.scalar();
    if (scalar) {
      out.columns[entry.key] = rule_of(scalar->text);
    } else {
      reading.wrong_type(entry.node, entry.key, "mean, median, mode, drop or a value");
      good = false;
    }
  }
  return good ? std::optional(std::move(out)) : std::nullopt;
}

Node Codec<FillRules>::write(const FillRules& value) {
  if (value.all) return node_of(*value.all);
  if (value.columns.empty()) return scalar_node("none");
  Node::Map map;
  for (const auto& [column, rule] : value.columns) map.push_back({column, {}, node_of(rule)});
  return {std::move(map), {}};
}

void FillFit::add(double value) {
  ++count_;
  if (kind_ == RuleKind::kMean) sum_ += value;
  if (kind_ == RuleKind::kMedian) values_.push_back(value);
  if (kind_ == RuleKind::kMode) ++numbers_[value];
}

void FillFit::add(std::string_view category) {
  ++count_;
  const auto found = categories_.find(category);
  if (found == categories_.end()) {
    categories_.emplace(category, 1);
  } else {
    ++found->second;
  }
}

std::optional<double> FillFit::number() const {
  if (count_ == 0 || category_) return std::nullopt;
  if (kind_ == RuleKind::kMean) return sum_ / static_cast<double>(count_);
  if (kind_ == RuleKind::kMode) return most_frequent(numbers_)->first;
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  if (sorted.size() % 2 == 1) return sorted[middle];
  return sorted[middle - 1] + (sorted[middle] - sorted[middle - 1]) / 2;
}

std::optional<std::string> FillFit::category() const {
  if (count_ == 0 || !category_) return std::nullopt;
  return most_frequent(categories_)->first;
}

}  // namespace accel
