#include "data/datasets/table_numbers.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

using FitJson = nlohmann::ordered_json;

constexpr auto kFill = "fill";
constexpr auto kCategories = "categories";
constexpr auto kFeatures = "features";

bool is_category(const FeatureColumn& column) {
  return column.kind == ColumnKind::kCategory;
}

/// Whether the column's value depends on the rows.
bool is_fitted(const FeatureColumn& column) {
  using Kind = FillRule::Kind;
  if (!column.rule) return false;
  const Kind kind = column.rule->kind;
  return kind == Kind::kMean || kind == Kind::kMedian || kind == Kind::kMode;
}

std::string day_text(double days) {
  const std::chrono::sys_days date{std::chrono::days(static_cast<int64_t>(std::floor(days)))};
  const std::chrono::year_month_day parts(date);
  std::array<char, 16> text;
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02u", static_cast<int>(parts.year()),
                static_cast<unsigned>(parts.month()), static_cast<unsigned>(parts.day()));
  return text.data();
}

}  // namespace

double field_value(const FeatureColumn& column, std::string_view field, char decimal) {
  if (column.kind == ColumnKind::kBoolean) return parse_field_boolean(field).value();
  if (column.kind == ColumnKind::kDate) return parse_field_date(field).value();
  return parse_field_number(field, decimal).value();
}

ColumnFits::ColumnFits(const std::vector<FeatureColumn>& columns, const RecordCheck& check)
    : columns_(columns), check_(check) {
  for (const FeatureColumn& column : columns_) {
    fits_.emplace_back(column.rule.value_or(FillRule{}).kind, is_category(column));
  }
}

bool ColumnFits::needed() const {
  return std::any_of(columns_.begin(), columns_.end(), is_fitted);
}

void ColumnFits::add(const Fields& fields) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    const std::string_view field = fields[columns_[i].position];
    if (!is_fitted(columns_[i]) || check_.is_missing(columns_[i], field)) continue;
    if (is_category(columns_[i])) {
      fits_[i].add(field);
    } else {
      fits_[i].add(field_value(columns_[i], field, check_.decimal()));
    }
  }
}

std::optional<double> ColumnFits::number(size_t column) const {
  const FeatureColumn& of = columns_[column];
  if (is_fitted(of)) return fits_[column].number();
  if (!of.rule || of.rule->kind != FillRule::Kind::kConstant || is_category(of)) return {};
  return of.kind == ColumnKind::kDate ? parse_field_date(of.rule->constant)
                                      : parse_field_number(of.rule->constant, '.');
}

std::optional<std::string> ColumnFits::category(size_t column) const {
  const FeatureColumn& of = columns_[column];
  if (is_fitted(of)) return fits_[column].category();
  const bool constant = of.rule && of.rule->kind == FillRule::Kind::kConstant && is_category(of);
  return constant ? std::optional(of.rule->constant) : std::nullopt;
}

FeatureTable::FeatureTable(std::vector<FeatureColumn> columns, const RecordCheck& check,
                           bool implicit)
    : columns_(std::move(columns)),
      check_(check),
      implicit_(implicit && check.names().has_header()),
      values_(columns_.size()) {
  place_columns();
}

void FeatureTable::place_columns() {
  offsets_.clear();
  size_t width = 0;
  for (const FeatureColumn& column : columns_) {
    offsets_.push_back(width);
    width += column.width();
  }
  width_ = static_cast<int64_t>(width);
}

void FeatureTable::begin(int64_t rows) {
  features_ = Array(DType::kF32, {rows, width_});
  row_ = 0;
  cells_.clear();
  missing_.assign(columns_.size(), 0);
}

void FeatureTable::put(size_t column, double number, float* out) const {
  const FeatureColumn& of = columns_[column];
  out += offsets_[column];
  if (of.kind != ColumnKind::kDate) {
    *out = static_cast<float>(number);
    return;
  }
  for (const DateFeature feature : of.dates) {
    *out++ = std::isnan(number) ? std::numeric_limits<float>::quiet_NaN()
                                : static_cast<float>(date_feature(number, feature));
  }
}

void FeatureTable::put(size_t column, std::string_view category, float* out) const {
  const FeatureColumn& of = columns_[column];
  out += offsets_[column];
  std::fill_n(out, of.width(), 0.0f);
  if (const auto known = of.categories.find(category)) out[*known] = 1;
}

void FeatureTable::add(const CsvReader& reader, const Fields& fields) {
  float* const out = features_.mutable_as<float>().data() + row_ * width_;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const FeatureColumn& column = columns_[i];
    const std::string_view field = fields[column.position];
    if (check_.is_missing(column, field)) {
      cells_.push_back({row_, i});
      ++missing_[i];
    } else if (!is_category(column)) {
      put(i, field_value(column, field, check_.decimal()), out);
    } else if (column.categories.find(field)) {
      put(i, field, out);
    } else {
      throw DataError(
          text("{}: column {} holds '{}', which the training data lacks", reader.location(),
               check_.names().describe(column.position), field.substr(0, 60)),
          text("list all its values: 'one_hot: {{}: [...]}'", column.name));
    }
  }
  ++row_;
}

void FeatureTable::fill(const ColumnFits& fits, bool partial) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    values_[i] = {fits.number(i), fits.category(i)};
    const bool unknown = is_fitted(columns_[i]) && !values_[i].number && !values_[i].category;
    if (!unknown || partial) continue;
    throw DataError(
        text("column {} has no value in the training samples: there is no {}",
             check_.names().describe(columns_[i].position), to_string(*columns_[i].rule)),
        "leave it out of 'features', or fill it with a value");
  }
  apply();
}

void FeatureTable::apply() {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  for (const Cell& cell : cells_) {
    float* const out = features_.mutable_as<float>().data() + cell.row * width_;
    const Value& value = values_[cell.column];
    if (is_category(columns_[cell.column])) {
      put(cell.column, value.category.value_or(""), out);
    } else {
      put(cell.column, value.number.value_or(kUnknown), out);
    }
  }
}

std::string FeatureTable::fitted() const {
  FitJson out;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const FeatureColumn& column = columns_[i];
    if (is_fitted(column) && values_[i].number) out[kFill][column.name] = *values_[i].number;
    if (is_fitted(column) && values_[i].category) out[kFill][column.name] = *values_[i].category;
    if (is_category(column) && !column.listed) {
      out[kCategories][column.name] = column.categories.names();
    }
    if (implicit_) out[kFeatures].push_back(column.name);
  }
  return out.empty() ? "" : out.dump(-1, ' ', false, FitJson::error_handler_t::replace);
}

/// Puts the columns into the order of `names`, which must be theirs. Returns whether it differs.
bool FeatureTable::reorder(const std::vector<std::string>& names) {
  constexpr auto kHint = "list the columns that are features in the recipe: 'features: [...]'";
  std::vector<size_t> left(columns_.size());
  std::iota(left.begin(), left.end(), size_t{0});
  std::vector<size_t> order;
  for (const std::string& name : names) {
    const auto column =
        std::find_if(left.begin(), left.end(), [&](size_t i) { return columns_[i].name == name; });
    if (column == left.end()) {
      throw DataError(text("'{}' lacks the column {} of the training data", check_.names().path(),
                           single_quoted(name)),
                      kHint);
    }
    order.push_back(*column);
    left.erase(column);
  }
  if (!left.empty()) {
    throw DataError(text("'{}' has the column {}, which is no feature of the training data",
                         check_.names().path(), single_quoted(columns_[left.front()].name)),
                    kHint);
  }
  std::vector<FeatureColumn> columns;
  std::vector<Value> fitted;
  for (const size_t i : order) {
    columns.push_back(columns_[i]);
    fitted.push_back(values_[i]);
  }
  columns_ = std::move(columns);
  values_ = std::move(fitted);
  return !std::is_sorted(order.begin(), order.end());
}

bool FeatureTable::take_fitted(const std::string& values) try {
  const FitJson in = FitJson::parse(values);
  const FitJson fill = in.value(kFill, FitJson::object());
  const FitJson categories = in.value(kCategories, FitJson::object());
  bool changed =
      implicit_ && in.contains(kFeatures) && reorder(in[kFeatures].get<std::vector<std::string>>());
  for (size_t i = 0; i < columns_.size(); ++i) {
    FeatureColumn& column = columns_[i];
    const auto value = fill.find(column.name);
    if (is_fitted(column) && value != fill.end()) {
      if (value->is_number()) values_[i].number = value->get<double>();
      if (value->is_string()) values_[i].category = value->get<std::string>();
    }
    const auto known = categories.find(column.name);
    if (!is_category(column) || column.listed || known == categories.end()) continue;
    const auto names = known->get<std::vector<std::string>>();
    if (names == column.categories.names()) continue;
    column.categories = LabelMap::given(names, "one_hot");
    changed = true;
  }
  if (changed) place_columns();
  return changed;
} catch (const FitJson::exception&) {
  throw CheckpointError("the fitted values of the training data are invalid",
                        "they were saved by another version");
}

std::string FeatureTable::value_text(size_t column) const {
  const Value& value = values_[column];
  if (value.category) return single_quoted(*value.category);
  if (!value.number) return "nothing";
  if (columns_[column].kind == ColumnKind::kDate) return day_text(*value.number);
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.6g", *value.number);
  return text.data();
}

}  // namespace accel
