#include "data/datasets/label_lists.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "data/datasets/table_columns.h"
#include "data/datasets/table_fields.h"

namespace accel {
namespace {

using nlohmann::json;

bool is_list(std::string_view field) {
  return field.starts_with('[') && field.ends_with(']');
}

/// The list, also with the single quotes of Python; null for other texts.
json list_in(std::string_view field) {
  json list = json::parse(field, nullptr, /*allow_exceptions=*/false);
  if (list.is_discarded() && field.find('"') == field.npos) {
    std::string quoted(field);
    std::replace(quoted.begin(), quoted.end(), '\'', '"');
    list = json::parse(quoted, nullptr, false);
  }
  return list.is_array() ? list : json();
}

bool repeats_one(std::vector<std::string> labels) {
  std::sort(labels.begin(), labels.end());
  return std::adjacent_find(labels.begin(), labels.end()) != labels.end();
}

}  // namespace

std::optional<std::vector<std::string>> labels_in(std::string_view field) {
  const std::string_view inner = without_spaces(field);
  std::vector<std::string> out;
  if (inner.empty()) return out;
  if (!is_list(inner)) {
    for (size_t at = 0; at <= inner.size();) {
      const size_t end = std::min(inner.find(',', at), inner.size());
      out.emplace_back(without_spaces(inner.substr(at, end - at)));
      if (out.back().empty()) return std::nullopt;
      at = end + 1;
    }
    return repeats_one(out) ? std::nullopt : std::optional(out);
  }
  const json list = list_in(inner);
  if (!list.is_array()) return std::nullopt;
  for (const json& item : list) {
    if (!item.is_string() && !item.is_number_integer()) return std::nullopt;
    out.push_back(item.is_string() ? item.get<std::string>() : item.dump());
  }
  return repeats_one(out) ? std::nullopt : std::optional(out);
}

std::optional<std::vector<float>> numbers_in(std::string_view field) {
  const std::string_view inner = without_spaces(field);
  if (!is_list(inner)) {
    const std::optional<float> number = field_number(inner);
    return number ? std::optional(std::vector<float>{*number}) : std::nullopt;
  }
  const json list = list_in(inner);
  if (!list.is_array()) return std::nullopt;
  std::vector<float> out;
  for (const json& item : list) {
    if (!item.is_number() && !item.is_boolean()) return std::nullopt;
    out.push_back(item.is_boolean() ? static_cast<float>(item.get<bool>()) : item.get<float>());
    if (!std::isfinite(out.back())) return std::nullopt;
  }
  return out;
}

std::optional<float> label_flag(std::string_view field) {
  if (const std::optional<float> number = field_number(field)) {
    return *number == 0 || *number == 1 ? number : std::nullopt;
  }
  const std::optional<double> flag = parse_field_boolean(field);
  return flag ? std::optional(static_cast<float>(*flag)) : std::nullopt;
}

}  // namespace accel
