#include "data/datasets/table_fields.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "core/base/text.h"

namespace accel {
namespace {

constexpr double kSecondsOfDay = 86400;

/// Reads a text from its start.
class FieldScan {
 public:
  explicit FieldScan(std::string_view text) : text_(text) {}

  bool done() const { return text_.empty(); }

  bool take(std::string_view one_of) {
    if (text_.empty() || one_of.find(text_.front()) == one_of.npos) return false;
    text_.remove_prefix(1);
    return true;
  }

  /// A number of `least` to `most` digits; -1 for anything else.
  int digits(size_t least, size_t most) {
    size_t count = 0;
    int value = 0;
    while (count < most && count < text_.size() && text_[count] >= '0' && text_[count] <= '9') {
      value = value * 10 + (text_[count++] - '0');
    }
    text_.remove_prefix(count);
    return count >= least ? value : -1;
  }

  /// Digits after a decimal point as a fraction.
  double fraction() {
    double value = 0, scale = 1;
    while (!text_.empty() && text_.front() >= '0' && text_.front() <= '9') {
      scale /= 10;
      value += scale * (text_.front() - '0');
      text_.remove_prefix(1);
    }
    return value;
  }

 private:
  std::string_view text_;
};

/// Seconds of a time of day and its zone; none if there is another text.
std::optional<double> time_of_day(FieldScan& scan) {
  const int hours = scan.digits(1, 2);
  if (hours < 0 || hours > 23 || !scan.take(":")) return std::nullopt;
  const int minutes = scan.digits(2, 2);
  if (minutes < 0 || minutes > 59) return std::nullopt;
  double seconds = hours * 3600.0 + minutes * 60.0;
  if (scan.take(":")) {
    const int whole = scan.digits(2, 2);
    if (whole < 0 || whole > 60) return std::nullopt;
    seconds += whole + (scan.take(".,") ? scan.fraction() : 0);
  }
  if (scan.done() || scan.take("Zz")) return seconds;
  const bool east = scan.take("+");
  if (!east && !scan.take("-")) return std::nullopt;
  const int zone = scan.digits(2, 2);
  scan.take(":");
  const int part = scan.done() ? 0 : scan.digits(2, 2);
  if (zone < 0 || zone > 14 || part < 0 || part > 59) return std::nullopt;
  return seconds - (east ? 1 : -1) * (zone * 3600.0 + part * 60.0);
}

}  // namespace

std::vector<std::string> default_na_values() {
  return {"", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "?"};
}

std::string_view without_spaces(std::string_view field) {
  while (field.starts_with(' ')) field.remove_prefix(1);
  while (field.ends_with(' ')) field.remove_suffix(1);
  return field;
}

std::optional<double> parse_field_number(std::string_view field, char decimal) {
  field = without_spaces(field);
  if (field.starts_with('+') && !field.starts_with("+-")) field.remove_prefix(1);
  std::string changed;
  if (decimal != '.' && field.find_first_of(".,") != field.npos) {
    if (field.find('.') != field.npos) return std::nullopt;
    changed = field;
    std::replace(changed.begin(), changed.end(), decimal, '.');
    field = changed;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  const bool whole = error == std::errc() && end == field.data() + field.size();
  if (!whole || !std::isfinite(static_cast<float>(value))) return std::nullopt;
  return value;
}

bool has_thousands_separators(std::string_view field, char decimal) {
  constexpr size_t kGroup = 3;
  FieldScan scan(without_spaces(field));
  scan.take("+-");
  const int first = scan.digits(1, kGroup);
  const char separator = decimal == '.' ? ',' : '.';
  if (first <= 0) return false;
  bool any = false;
  while (scan.take({&separator, 1})) {
    if (scan.digits(kGroup, kGroup) < 0) return false;
    any = true;
  }
  if (scan.take({&decimal, 1})) scan.fraction();
  return any && scan.done();
}

std::optional<double> parse_field_boolean(std::string_view field) {
  const std::string text = ascii_lower(without_spaces(field));
  for (const char* word : {"true", "yes", "t", "y", "1"}) {
    if (text == word) return 1;
  }
  for (const char* word : {"false", "no", "f", "n", "0"}) {
    if (text == word) return 0;
  }
  return std::nullopt;
}

std::optional<double> parse_field_date(std::string_view field) {
  using std::chrono::day, std::chrono::month, std::chrono::sys_days, std::chrono::year;
  FieldScan scan(without_spaces(field));
  const int years = scan.digits(4, 4);
  if (years < 0 || !scan.take("-/")) return std::nullopt;
  const int months = scan.digits(1, 2);
  if (months < 0 || !scan.take("-/")) return std::nullopt;
  const int days = scan.digits(1, 2);
  if (days < 0) return std::nullopt;
  const std::chrono::year_month_day date(year(years), month(static_cast<unsigned>(months)),
                                         day(static_cast<unsigned>(days)));
  if (!date.ok()) return std::nullopt;
  const auto since = static_cast<double>(sys_days(date).time_since_epoch().count());
  if (scan.done()) return since;
  if (!scan.take("T ")) return std::nullopt;
  const std::optional<double> seconds = time_of_day(scan);
  if (!seconds || !scan.done()) return std::nullopt;
  return since + *seconds / kSecondsOfDay;
}

double date_feature(double days, DateFeature feature) {
  const auto whole = static_cast<int64_t>(std::floor(days));
  const std::chrono::sys_days date{std::chrono::days(whole)};
  const std::chrono::year_month_day parts(date);
  switch (feature) {
    case DateFeature::kYear:
      return static_cast<int>(parts.year());
    case DateFeature::kMonth:
      return static_cast<unsigned>(parts.month());
    case DateFeature::kDay:
      return static_cast<unsigned>(parts.day());
    case DateFeature::kWeekday:
      return std::chrono::weekday(date).iso_encoding() - 1;
    case DateFeature::kHour:
      // A second is about 1e-5 of a day: rounding must not move 13:00 to 12:59:59.999.
      return std::floor((days - static_cast<double>(whole)) * 24 + 1e-6);
    case DateFeature::kTimestamp:
      return days;
  }
  return 0;
}

}  // namespace accel
