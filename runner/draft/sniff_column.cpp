#include "runner/draft/sniff_column.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "core/base/text.h"
#include "data/datasets/table_fields.h"

namespace accel {
namespace {

constexpr const char* kMissingTexts[] = {"",     "NA",   "N/A",  "n/a",  "na",
                                         "NaN",  "nan",  "NAN",  "null", "NULL",
                                         "Null", "#N/A", "<NA>", "#NA",  "?"};
constexpr const char* kMaybeMissingTexts[] = {"None", "none", "NONE", "-", "--", "."};
constexpr std::pair<const char*, DateFeature> kDateParts[] = {{"year", DateFeature::kYear},
                                                              {"month", DateFeature::kMonth},
                                                              {"day", DateFeature::kDay},
                                                              {"weekday", DateFeature::kWeekday},
                                                              {"hour", DateFeature::kHour}};
constexpr size_t kLongestCategory = 256;  ///< bytes
constexpr size_t kQuartileSample = 4096;
constexpr double kFarOut = 3;  ///< Tukey's outer fences, in interquartile ranges

template <size_t Size>
bool is_one_of(std::string_view word, const char* const (&words)[Size]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

/// Whether a text looks like a date of another form: 31/12/2024, 12/31/24, 31.12.2024.
bool is_other_date(std::string_view text) {
  for (const char mark : {'/', '.', '-'}) {
    const size_t first = text.find(mark), second = text.find(mark, first + 1);
    if (first == text.npos || second == text.npos) continue;
    const bool digits = text.substr(0, 10).find_first_not_of("0123456789/.-") == text.npos;
    if (digits && first <= 4 && second - first <= 3 && text.size() >= 6) return true;
  }
  return false;
}

/// "Customer ID", "customer_id", "PassengerId", "index", "".
bool is_id_name(const std::string& name) {
  const std::string lower = ascii_lower(trimmed(name));
  static constexpr const char* kIds[] = {"",   "id", "index", "idx",        "uuid", "guid",
                                         "no", "nr", "#",     "unnamed: 0", "rowid"};
  if (is_one_of(lower, kIds) || lower.starts_with("id_") || lower.starts_with("id ")) return true;
  if (lower.size() < 3 || !lower.ends_with("id")) return false;
  const char before = name[name.size() - 3];
  const bool camel =
      name[name.size() - 2] == 'I' && std::islower(static_cast<unsigned char>(before));
  return camel || std::string_view(" _-.").find(before) != std::string_view::npos;
}

std::string id_reason(const std::string& name) {
  const bool unnamed = name.empty() || ascii_lower(name) == "unnamed: 0";
  return unnamed ? "row numbers, of a column without a name" : "an id, by its name";
}

/// Whether a text is a number with a currency, a percent sign or thousands separators.
bool is_formatted_number(std::string_view word, bool decimal_comma) {
  static constexpr std::string_view kMarks[] = {"$", "€", "£", "¥", "%", " "};
  const size_t given = word.size();
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view mark : kMarks) {
      if (word.starts_with(mark)) word.remove_prefix(mark.size()), again = true;
      if (word.ends_with(mark)) word.remove_suffix(mark.size()), again = true;
    }
  }
  const char separator = decimal_comma ? '.' : ',';
  std::string digits;
  size_t since = 0, separators = 0;  // characters since the last separator
  for (size_t i = 0; i < word.size(); ++i) {
    if (word[i] != separator) {
      digits += word[i];
      ++since;
      continue;
    }
    const std::string_view group = word.substr(i + 1, 3);
    if (group.find_first_not_of("0123456789") != group.npos || group.size() < 3 || since == 0 ||
        (separators > 0 && since != 3)) {
      return false;
    }
    ++separators;
    since = 0;
  }
  return (word.size() < given || separators > 0) &&
         parse_field_number(digits, decimal_comma ? ',' : '.').has_value();
}

/// A number beyond the range of a float: "inf", "-Infinity", "1e400".
bool is_infinite(std::string_view word) {
  if (word.starts_with('+')) word.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (end != word.data() + word.size() || word.empty()) return false;
  // Numbers below the range round to 0, and are no reason for doubt.
  const bool is_large = error == std::errc::result_out_of_range && word.find("e-") == word.npos &&
                        word.find("E-") == word.npos;
  return is_large ||
         (error == std::errc() && !std::isnan(value) && !std::isfinite(static_cast<float>(value)));
}

/// Digits that a number would lose: "01234" of a postal code. "07" is a month as well.
bool is_code(std::string_view word) {
  return word.size() > 2 && word.starts_with('0') &&
         word.find_first_not_of("0123456789") == word.npos;
}

std::string short_sample(const std::string& value) {
  return value.size() <= 24 ? value : value.substr(0, 21) + "...";
}

}  // namespace

std::string type_text(const SniffedColumn& column) {
  switch (column.type) {
    case ColumnType::kNumber:
      return "number";
    case ColumnType::kInteger:
      return "integer";
    case ColumnType::kBoolean:
      return "boolean";
    case ColumnType::kCategory:
      return text("category, {} values", column.distinct);
    case ColumnType::kDate:
      return "date";
    case ColumnType::kText:
      return "text";
    case ColumnType::kId:
      return "id";
    case ColumnType::kConstant:
      return "constant";
    case ColumnType::kEmpty:
      return "empty";
  }
  return "";
}

void RunningMoments::add(double value) {
  const double before = value - mean_;
  mean_ += before / static_cast<double>(++count_);
  squares_ += before * (value - mean_);
}

ColumnMoments RunningMoments::result() const {
  const double variance = count_ ? squares_ / static_cast<double>(count_) : 0;
  return {mean_, variance > 0 ? std::sqrt(variance) : 1};
}

bool is_missing_text(std::string_view field) {
  return is_one_of(trimmed(field), kMissingTexts);
}

bool is_date_text(std::string_view field) {
  return parse_field_date(field).has_value();
}

std::optional<double> table_number(std::string_view field, bool decimal_comma) {
  return parse_field_number(field, decimal_comma ? ',' : '.');
}

namespace {

/// The field, or of a long text the beginning and a hash: texts may begin with one instruction.
std::string counted_value(std::string_view field) {
  std::string out(field.substr(0, kLongestCategory));
  if (field.size() > kLongestCategory) {
    out += std::to_string(std::hash<std::string_view>()(field));
  }
  return out;
}

}  // namespace

void ColumnScan::add(std::string_view field) {
  ++rows_;
  const std::string word = trimmed(field);
  if (is_one_of(word, kMissingTexts)) {
    ++missing_;
    missing_texts_.insert(word);
    return;
  }
  const std::string value = counted_value(field);
  if (const auto seen = values_.find(value); seen != values_.end()) {
    ++seen->second;
  } else if (values_.size() <= kMostClasses) {
    values_.emplace(value, 1);
  }
  has_long_text_ = has_long_text_ || field.size() > kLongestCategory;
  spaces_ += std::count(word.begin(), word.end(), ' ');
  const bool infinite = is_infinite(word);
  if (infinite || is_one_of(word, kMaybeMissingTexts)) {
    ++maybe_missing_;
    maybe_texts_.insert(word);
    if (infinite) infinite_texts_.insert(word);
    return;
  }
  if (code_.empty() && is_code(word)) code_ = word;
  if (const std::optional<double> truth = parse_field_boolean(word)) {
    ++booleans_;
    (*truth != 0 ? true_seen_ : false_seen_) = true;
    digits_only_ = digits_only_ && (word == "0" || word == "1");
  }
  if (const std::optional<double> number = table_number(word, decimal_comma_)) {
    add_number(*number);
  } else {
    if (first_text_.empty()) first_text_ = word;
    formatted_ += is_formatted_number(word, decimal_comma_);
    add_date(word);
  }
}

void ColumnScan::add_number(double value) {
  least_ = numbers_ ? std::min(least_, value) : value;
  most_ = numbers_ ? std::max(most_, value) : value;
  whole_ = whole_ && std::floor(value) == value;
  moments_.add(value);
  // A reservoir with a fixed generator, so that a draft is reproducible.
  if (sample_.size() < kQuartileSample) {
    sample_.push_back(value);
  } else {
    const uint64_t draw = static_cast<uint64_t>(numbers_) * 6364136223846793005u >> 33;
    const uint64_t slot = draw % static_cast<uint64_t>(numbers_ + 1);
    if (slot < kQuartileSample) sample_[slot] = value;
  }
  ++numbers_;
}

void ColumnScan::add_date(std::string_view field) {
  const std::optional<double> days = parse_field_date(field);
  if (!days) return;
  ++dates_;
  for (size_t i = 0; i < date_moments_.size(); ++i) {
    const double value = date_feature(*days, kDateParts[i].second);
    date_moments_[i].add(value);
    if (kDateParts[i].second == DateFeature::kHour) has_time_ = has_time_ || value != 0;
  }
}

/// Whether a value lies beyond Tukey's outer fences.
bool ColumnScan::has_outliers() const {
  std::vector<double> sorted = sample_;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.size() < 4) return false;
  const double low = sorted[sorted.size() / 4], high = sorted[sorted.size() * 3 / 4];
  const double fence = kFarOut * (high - low);
  return fence > 0 && (least_ < low - fence || most_ > high + fence);
}

void ColumnScan::describe_number(SniffedColumn& column) const {
  column.type = whole_ ? ColumnType::kInteger : ColumnType::kNumber;
  column.moments = moments_.result();
  column.outliers = has_outliers();
  if (!is_id_name(column.name)) return;
  const auto present = static_cast<size_t>(numbers_);
  if (column.distinct <= kMostCategories && column.distinct * 2 <= present) {
    column.type = ColumnType::kCategory;
    column.reason = "an id that repeats";
  } else if (whole_) {
    column.type = ColumnType::kId;
    column.reason = id_reason(column.name);
  }
}

void ColumnScan::describe_date(SniffedColumn& column) const {
  column.type = ColumnType::kDate;
  for (size_t i = 0; i < (has_time_ ? date_moments_.size() : date_moments_.size() - 1); ++i) {
    column.parts.push_back(kDateParts[i].first);
    column.part_moments.push_back(date_moments_[i].result());
  }
}

void ColumnScan::describe_text(SniffedColumn& column) const {
  const auto present = static_cast<size_t>(rows_ - missing_);
  const size_t distinct = values_.size();
  const bool is_repeated = distinct * 2 <= present && !has_long_text_;
  column.words = static_cast<double>(spaces_) / static_cast<double>(present) + 1;
  if (numbers_ == 0 && is_other_date(first_text_)) {
    column.reason =
        text("dates such as '{}' are not in the form 2024-12-31", short_sample(first_text_));
    return;
  }
  if (formatted_ > 0 && formatted_ + numbers_ == rows_ - missing_ - maybe_missing_) {
    column.reason = text(
        "numbers such as '{}', with characters that are no part of a number: "
        "remove these from the file",
        short_sample(first_text_));
    return;
  }
  const bool is_code_column = !column.code.empty();
  if (is_code_column && distinct > kMostCategories && distinct * 5 > present) {
    column.type = distinct == present ? ColumnType::kId : ColumnType::kText;
    column.reason = text("codes such as '{}', more than {} of them", column.code, kMostCategories);
    return;
  }
  if (distinct <= kMostCategories && (is_repeated || (present < 10 && !is_id_name(column.name)))) {
    column.type = ColumnType::kCategory;
  } else if (is_id_name(column.name) || (distinct == present && spaces_ == 0 && numbers_ == 0)) {
    column.type = ColumnType::kId;
    column.reason = distinct == present ? "another value in each row" : id_reason(column.name);
  } else if (numbers_ * 5 >= static_cast<int64_t>(present) * 4) {
    column.reason = text("{} of {} values are numbers, but not '{}': if it means missing, write NA",
                         numbers_, present, short_sample(first_text_));
  } else if (distinct <= kMostClasses && distinct * 5 <= present && !has_long_text_) {
    column.type = ColumnType::kCategory;
    column.reason = text("{} values, more than {}", distinct, kMostCategories);
  } else {
    column.reason = text("free text, such as '{}'", short_sample(first_text_));
  }
}

void ColumnScan::replace_moments(SniffedColumn& column) const {
  if (numbers_ > 0) column.moments = moments_.result();
  for (size_t i = 0; i < column.part_moments.size() && dates_ > 0; ++i) {
    column.part_moments[i] = date_moments_[i].result();
  }
}

SniffedColumn ColumnScan::finish(const std::string& name, std::set<std::string>& na_values) const {
  SniffedColumn column;
  column.name = name;
  column.missing = missing_;
  column.distinct = values_.size();
  na_values.insert(missing_texts_.begin(), missing_texts_.end());
  const int64_t present = rows_ - missing_, rest = present - maybe_missing_;
  const bool are_numbers = numbers_ > maybe_missing_ && numbers_ == rest;
  const bool is_number = are_numbers && code_.empty();
  if (are_numbers) column.code = code_;
  if (is_number) column.infinite.assign(infinite_texts_.begin(), infinite_texts_.end());
  const bool is_date = dates_ > maybe_missing_ && dates_ == rest;
  const bool is_boolean =
      booleans_ > maybe_missing_ && booleans_ == rest && !digits_only_ && true_seen_ && false_seen_;
  if (is_number || is_date || is_boolean) {
    column.missing += maybe_missing_;
    column.distinct -= maybe_texts_.size();
    na_values.insert(maybe_texts_.begin(), maybe_texts_.end());
  }
  if (values_.size() <= kMostClasses) {
    for (const auto& [value, count] : values_) {
      const bool is_missing =
          (is_number || is_date || is_boolean) && maybe_texts_.contains(trimmed(value));
      if (is_missing) continue;
      column.values.push_back(value);
      column.counts.push_back(count);
    }
  }
  if (present == 0) {
    column.type = ColumnType::kEmpty;
  } else if (column.distinct == 1) {
    column.type = ColumnType::kConstant;
  } else if (is_boolean) {
    column.type = ColumnType::kBoolean;
  } else if (is_number) {
    describe_number(column);
  } else if (is_date) {
    describe_date(column);
  } else {
    describe_text(column);
  }
  return column;
}

}  // namespace accel
