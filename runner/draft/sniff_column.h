// Type and statistics of one column, from its fields.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

enum class ColumnType {
  kNumber,
  kInteger,
  kBoolean,   ///< words such as yes and no
  kCategory,  ///< few texts
  kDate,
  kText,
  kId,  ///< another value in each row
  kConstant,
  kEmpty,
};

struct ColumnMoments {
  double mean = 0;
  double deviation = 1;  ///< never 0
};

struct SniffedColumn {
  std::string name;  ///< as a recipe names it: its number, in a table without a header line
  ColumnType type = ColumnType::kText;
  int64_t missing = 0;
  size_t distinct = 0;                ///< present values, as texts; counted up to kMostClasses + 1
  std::vector<std::string> values;    ///< the distinct texts, sorted; empty beyond kMostClasses
  std::vector<int64_t> counts;        ///< rows with each of `values`
  ColumnMoments moments;              ///< of numbers that are present
  bool outliers = false;              ///< of numbers
  std::vector<std::string> infinite;  ///< of numbers: "inf", "1e400"; they are missing values
  std::string code;                   ///< a value with leading zeros; empty: none
  std::vector<std::string> parts;     ///< of a date: "year", "month", ...
  std::vector<ColumnMoments> part_moments;
  double words = 0;    ///< of a text, on average
  std::string reason;  ///< of a text, an id or a category with many values
};

/// A target with more classes is refused.
constexpr size_t kMostClasses = 1000;
/// A category with more values is not used as a feature.
constexpr size_t kMostCategories = 32;

/// "category, 3 values"
std::string type_text(const SniffedColumn& column);

/// Mean and deviation of numbers, in one pass.
class RunningMoments {
 public:
  void add(double value);
  ColumnMoments result() const;

 private:
  int64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;
};

/// Collects the fields of a column.
class ColumnScan {
 public:
  explicit ColumnScan(bool decimal_comma) : decimal_comma_(decimal_comma) {}

  void add(std::string_view field);

  /// Sets the moments of a column whose type is known from these fields and others.
  void replace_moments(SniffedColumn& column) const;

  /// The type and the statistics; adds to `na_values` the texts that mean "missing".
  SniffedColumn finish(const std::string& name, std::set<std::string>& na_values) const;

 private:
  void add_number(double value);
  void add_date(std::string_view field);
  void describe_number(SniffedColumn& column) const;
  void describe_date(SniffedColumn& column) const;
  void describe_text(SniffedColumn& column) const;
  bool has_outliers() const;

  bool decimal_comma_;
  int64_t rows_ = 0;
  int64_t missing_ = 0;
  int64_t maybe_missing_ = 0;  ///< such as "-": missing in a column of numbers, else a value
  std::set<std::string> missing_texts_, maybe_texts_, infinite_texts_;
  std::string code_;                                    ///< the first number with leading zeros
  std::map<std::string, int64_t, std::less<>> values_;  ///< with their counts, up to a limit
  int64_t formatted_ = 0;  ///< numbers with a currency, a percent sign or separators
  int64_t numbers_ = 0, dates_ = 0, booleans_ = 0, spaces_ = 0;
  bool whole_ = true, digits_only_ = true, has_time_ = false, has_long_text_ = false;
  bool true_seen_ = false, false_seen_ = false;
  RunningMoments moments_;
  std::array<RunningMoments, 5> date_moments_;
  std::vector<double> sample_;  ///< of the numbers, for quartiles
  double least_ = 0, most_ = 0;
  std::string first_text_;  ///< the first value that is neither a number nor maybe missing
};

/// Whether the field always means "missing", such as an empty field or NA.
bool is_missing_text(std::string_view field);

/// A field as a number in the table's notation; none for other fields.
std::optional<double> table_number(std::string_view field, bool decimal_comma);

/// Whether the field is a date that the dataset reads.
bool is_date_text(std::string_view field);

}  // namespace accel
