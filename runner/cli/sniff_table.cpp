#include "runner/cli/sniff_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include "core/error.h"
#include "data/table_columns.h"
#include "runner/formats/csv.h"
#include "runner/formats/gzip.h"

namespace accel {
namespace {

constexpr size_t kMaxCategories = 32;    ///< more values than that are free text
constexpr size_t kMaxClassNumbers = 20;  ///< more whole numbers than that are a quantity
constexpr size_t kMaxClasses = 1000;
constexpr size_t kMaxTableBytes = size_t{1} << 32;

/// What the fields of one column have been so far.
class ColumnSummary {
 public:
  void add(std::string_view field) {
    ++rows_;
    if (field.empty()) {
      ++empty_;
      return;
    }
    if (values_.size() <= kMaxClasses) values_.emplace(field);
    const std::optional<float> number = field_number(field);
    if (!number) {
      all_numbers_ = false;
      return;
    }
    whole_ = whole_ && *number >= 0 && std::floor(*number) == *number;
    sum_ += *number;
    sum_squares_ += static_cast<double>(*number) * *number;
  }

  bool is_number() const { return all_numbers_ && empty_ < rows_; }
  bool is_category() const {
    return !is_number() && empty_ == 0 && values_.size() <= kMaxCategories;
  }
  /// As a target: texts, or few whole numbers.
  bool is_class() const {
    return !all_numbers_ || (whole_ && values_.size() <= kMaxClassNumbers && values_.size() > 1);
  }
  bool has_empty() const { return empty_ > 0; }
  size_t distinct() const { return values_.size(); }
  std::vector<std::string> values() const { return {values_.begin(), values_.end()}; }
  double mean() const { return rows_ ? sum_ / static_cast<double>(rows_) : 0; }
  double deviation() const {
    const double variance = rows_ ? sum_squares_ / static_cast<double>(rows_) - mean() * mean() : 0;
    return variance > 0 ? std::sqrt(variance) : 1;
  }

 private:
  int64_t rows_ = 0;
  int64_t empty_ = 0;
  bool all_numbers_ = true;
  bool whole_ = true;
  double sum_ = 0;
  double sum_squares_ = 0;
  std::set<std::string, std::less<>> values_;
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  const std::string word = lower(name);
  return std::any_of(names.begin(), names.end(), [&](const char* each) { return word == each; });
}

size_t target_column(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (is_one_of(names[i], {"target", "label", "class", "y", "outcome", "species"})) return i;
  }
  return names.size() - 1;
}

/// The columns of a table and its number of rows.
struct Scan {
  int64_t rows = 0;
  bool header = false;
  std::vector<std::string> names;
  std::vector<ColumnSummary> columns;
};

Scan scan_table(const std::string& path, const CsvDialect& dialect) {
  const SharedBytes file = map_or_gunzip(path, kMaxTableBytes);
  Scan scan;
  std::vector<std::string_view> fields, second;
  {
    CsvReader start(file.view, dialect, path);
    if (!start.next(fields)) throw DataError("'" + path + "' is empty");
    const std::vector<std::string> first(fields.begin(), fields.end());
    scan.header = start.next(second) && looks_like_header({first.begin(), first.end()}, second);
    for (size_t i = 0; i < first.size(); ++i) {
      scan.names.push_back(scan.header ? first[i] : std::to_string(i));
    }
  }
  scan.columns.resize(scan.names.size());
  CsvReader reader(file.view, dialect, path);
  if (scan.header) reader.next(fields);
  for (; reader.next(fields); ++scan.rows) {
    for (size_t i = 0; i < fields.size(); ++i) scan.columns[i].add(fields[i]);
  }
  return scan;
}

void sort_feature(SniffedTable& table, const std::string& name, const ColumnSummary& column) {
  if (is_one_of(name, {"id", "index", ""}) || (!column.is_number() && !column.is_category())) {
    table.left_out.push_back(name);
  } else if (column.is_number()) {
    table.empty_numbers = table.empty_numbers || column.has_empty();
    table.features.push_back({name, {}, column.mean(), column.deviation()});
  } else {
    table.features.push_back({name, column.values(), 0, 1});
  }
}

}  // namespace

SniffedTable sniff_table(const std::string& path, bool tab_separated) {
  const Scan scan =
      scan_table(path, {.delimiter = tab_separated ? '\t' : ',', .quoting = !tab_separated});
  SniffedTable table;
  table.rows = scan.rows;
  table.header = scan.header;
  const size_t target = target_column(scan.names);
  table.target = scan.names[target];
  const ColumnSummary& goal = scan.columns[target];
  if (goal.is_class()) {
    if (goal.distinct() > kMaxClasses || goal.has_empty() || goal.distinct() < 2) {
      throw DataError(
          "column '" + table.target + "' of '" + path +
              "' is no target: it should hold numbers, or 2 to 1000 classes, in every row",
          "name the column to predict 'target'");
    }
    table.labels = goal.values();
  }
  for (size_t i = 0; i < scan.names.size(); ++i) {
    if (i != target) sort_feature(table, scan.names[i], scan.columns[i]);
  }
  if (table.features.empty()) {
    throw DataError("'" + path + "' has no column of numbers or categories to learn from",
                    "free text is not read from tables");
  }
  return table;
}

}  // namespace accel
