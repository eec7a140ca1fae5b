// Values of table fields: missing values, numbers, booleans and dates.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/recipe/codec.h"
#include "data/datasets/label_map.h"

namespace accel {

/// A number derived from a date.
enum class DateFeature { kYear, kMonth, kDay, kWeekday, kHour, kTimestamp };

template <>
struct EnumNames<DateFeature> {
  static constexpr std::pair<DateFeature, const char*> kValues[] = {
      {DateFeature::kYear, "year"}, {DateFeature::kMonth, "month"},
      {DateFeature::kDay, "day"},   {DateFeature::kWeekday, "weekday"},
      {DateFeature::kHour, "hour"}, {DateFeature::kTimestamp, "timestamp"}};
};

/// The texts that mean "missing" by default.
std::vector<std::string> default_na_values();

/// Without surrounding spaces.
std::string_view without_spaces(std::string_view field);

/// A field as a number that is finite as a float, ignoring surrounding spaces; none for other
/// fields. `decimal` is the decimal separator, '.' or ','.
std::optional<double> parse_field_number(std::string_view field, char decimal);

/// Whether a number is written with separators of thousands, the other mark than `decimal`: 1,500
/// or -1,500,000.5.
bool has_thousands_separators(std::string_view field, char decimal);

/// 1 for true, yes, t, y and 1 in any case, 0 for their opposites; none for other fields.
std::optional<double> parse_field_boolean(std::string_view field);

/// Days since 1970-01-01 in UTC: 2024-01-31 or 2024/01/31, then optionally a time such as 13:45,
/// 13:45:10 or 13:45:10.5 after 'T' or a space, and a zone: Z, +02:00 or +0200. None for other
/// fields.
std::optional<double> parse_field_date(std::string_view field);

/// A feature of a date in days since 1970; weekday is 0 on Mondays, timestamp the days.
double date_feature(double days, DateFeature feature);

}  // namespace accel
