#include "data/table_columns.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/error.h"

namespace accel {
namespace {

bool has_number(const std::vector<std::string_view>& fields) {
  return std::any_of(fields.begin(), fields.end(),
                     [](std::string_view field) { return field_number(field).has_value(); });
}

std::optional<size_t> position_of(const std::string& text) {
  size_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && after == end ? std::optional(value) : std::nullopt;
}

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "'" : ", '") + name + "'";
  return all;
}

}  // namespace

ColumnNames::ColumnNames(std::vector<std::string> names, size_t count, std::string path)
    : names_(std::move(names)), count_(count), path_(std::move(path)) {}

std::optional<size_t> ColumnNames::look_up(const std::string& column) const {
  const auto named = std::find(names_.begin(), names_.end(), column);
  if (named != names_.end()) return static_cast<size_t>(named - names_.begin());
  const std::optional<size_t> position = position_of(column);
  return position && *position < count_ ? position : std::nullopt;
}

size_t ColumnNames::find(const std::string& column, const std::string& option) const {
  if (const std::optional<size_t> found = look_up(column)) return *found;
  std::string hint = did_you_mean(column, names_);
  if (hint.empty() && !names_.empty()) hint = "it has the columns " + joined(names_);
  if (names_.empty()) {
    hint = "it has no header line; its columns are 0 to " + std::to_string(count_ - 1);
  }
  throw Error(ExitCode::kRecipe,
              "'" + option + "' names the column '" + column + "', which '" + path_ + "' lacks",
              hint);
}

std::string ColumnNames::describe(size_t column) const {
  return names_.empty() ? std::to_string(column) : "'" + names_[column] + "'";
}

std::vector<FeatureColumn> feature_columns(const TableOptions& options, const ColumnNames& names,
                                           std::optional<size_t> target) {
  std::vector<FeatureColumn> columns;
  for (const std::string& feature : options.features) {
    columns.push_back({.position = names.find(feature, "features")});
  }
  for (size_t i = 0; options.features.empty() && i < names.count(); ++i) {
    if (i != target) columns.push_back({.position = i});
  }
  for (const auto& [name, categories] : options.one_hot) {
    const size_t position = names.find(name, "one_hot");
    const auto column = std::find_if(columns.begin(), columns.end(), [=](const FeatureColumn& c) {
      return c.position == position;
    });
    if (column == columns.end()) {
      throw Error(ExitCode::kRecipe,
                  "'one_hot' names the column '" + name + "', which is not among the features");
    }
    column->one_hot = true;
    if (!categories.empty()) column->categories = LabelMap::given(categories, "one_hot." + name);
  }
  if (columns.empty()) throw Error(ExitCode::kRecipe, "the table has no column but its target");
  return columns;
}

std::optional<float> field_number(std::string_view field) {
  while (field.starts_with(' ')) field.remove_prefix(1);
  while (field.ends_with(' ')) field.remove_suffix(1);
  if (field.starts_with('+')) field.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(field.begin(), field.end(), value);
  const auto number = static_cast<float>(value);
  if (error != std::errc() || end != field.end() || !std::isfinite(number)) return std::nullopt;
  return number;
}

bool looks_like_header(const std::vector<std::string_view>& first,
                       const std::vector<std::string_view>& second) {
  return !has_number(first) && has_number(second);
}

}  // namespace accel
