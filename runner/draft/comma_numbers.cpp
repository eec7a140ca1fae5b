#include "runner/draft/comma_numbers.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/text.h"
#include "data/datasets/table_fields.h"

namespace accel {
namespace {

/// The numbers of a column by what their commas can mean.
struct CommaCounts {
  int64_t either = 0;     ///< 1,500
  int64_t decimal = 0;    ///< 1,5
  int64_t thousands = 0;  ///< 1,234,567 and 1,500.25
  int64_t short_whole = 0;
  int64_t long_whole = 0;  ///< of four digits or more
  std::string example = {};
};

bool is_whole(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == word.npos;
}

void count_number(std::string_view word, CommaCounts& counts) {
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  if (is_whole(word)) {
    ++(word.size() > 3 ? counts.long_whole : counts.short_whole);
  } else if (word.find(',') == word.npos) {
    counts.thousands += parse_field_number(word, '.').has_value();  // with a decimal point
  } else if (!has_thousands_separators(word, '.')) {
    counts.decimal += parse_field_number(word, ',').has_value();
  } else if (!parse_field_number(word, ',')) {
    ++counts.thousands;
  } else if (word.starts_with('0')) {
    ++counts.decimal;
  } else {
    if (counts.either++ == 0) counts.example = word;
  }
}

}  // namespace

CommaReading read_commas(const SharedBytes& file, CsvDialect dialect, const std::string& path) {
  std::vector<CommaCounts> columns;
  CsvReader reader(file.view, dialect, path);
  for (std::vector<std::string_view> fields; reader.next(fields);) {
    columns.resize(fields.size());
    for (size_t i = 0; i < fields.size(); ++i) count_number(trimmed(fields[i]), columns[i]);
  }
  const auto any = [&](const auto& has) {
    return std::any_of(columns.begin(), columns.end(), has);
  };
  const bool is_decimal = any([](const CommaCounts& counts) {
    return counts.decimal > 0 || (counts.either > 0 && counts.long_whole > 0);
  });
  if (is_decimal) return {.decimal = true};
  if (any([](const CommaCounts& counts) { return counts.thousands > 0; })) return {};
  const auto doubtful = std::find_if(columns.begin(), columns.end(),
                                     [](const CommaCounts& counts) { return counts.either > 0; });
  if (doubtful == columns.end()) return {};
  const bool has_short =
      any([](const CommaCounts& counts) { return counts.either > 0 && counts.short_whole > 0; });
  return {!has_short, doubtful->example, static_cast<size_t>(doubtful - columns.begin())};
}

}  // namespace accel
