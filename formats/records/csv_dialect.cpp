#include "formats/records/csv_dialect.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace accel {
namespace {

constexpr char kDelimiters[] = {',', ';', '\t', '|'};
constexpr int kRecords = 200;
constexpr size_t kSampleBytes = size_t{1} << 20;

bool is_all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

/// Digits with at most one of `mark`, and a sign.
bool is_decimal(std::string_view field, char mark) {
  if (field.starts_with('-') || field.starts_with('+')) field.remove_prefix(1);
  const size_t at = field.find(mark);
  if (at == field.npos) return is_all_digits(field);
  const std::string_view whole = field.substr(0, at), part = field.substr(at + 1);
  return is_all_digits(part) && (whole.empty() || is_all_digits(whole));
}

/// How well a delimiter splits the first records.
struct DialectFit {
  size_t fields = 0;       ///< per record
  int clean = 0;           ///< fields that are numbers, or have none of the other delimiters
  int all = 0;             ///< fields
  int decimal_commas = 0;  ///< fields such as 1,5
  int decimal_points = 0;  ///< fields such as 1.5
  double share() const { return all ? static_cast<double>(clean) / all : 0; }
};

bool is_clean(std::string_view field, char delimiter) {
  if (is_decimal(field, '.') || is_decimal(field, ',')) return true;
  return std::none_of(std::begin(kDelimiters), std::end(kDelimiters), [&](char other) {
    return other != delimiter && field.find(other) != field.npos;
  });
}

void count_field(std::string_view field, char delimiter, DialectFit& fit) {
  ++fit.all;
  fit.clean += is_clean(field, delimiter);
  fit.decimal_commas += has_decimal_comma(field);
  fit.decimal_points += field.find('.') != field.npos && is_decimal(field, '.');
}

/// None if the records differ in length or have one field.
std::optional<DialectFit> fit_of(std::span<const std::byte> text, CsvDialect dialect) {
  DialectFit fit;
  std::vector<std::string_view> fields;
  try {
    CsvReader reader(text, dialect, "");
    for (int i = 0; i < kRecords && reader.next(fields); ++i) {
      fit.fields = fields.size();
      for (const std::string_view field : fields) count_field(field, dialect.delimiter, fit);
    }
  } catch (const DataError&) {
    return std::nullopt;
  }
  return fit.fields > 1 ? std::optional(fit) : std::nullopt;
}

/// The first lines, whole.
std::span<const std::byte> start_of(std::span<const std::byte> text) {
  if (text.size() <= kSampleBytes) return text;
  const std::string_view head(reinterpret_cast<const char*>(text.data()), kSampleBytes);
  const size_t end = head.rfind('\n');
  return text.first(end == head.npos ? kSampleBytes : end + 1);
}

/// Whether a field begins with a quote right after a delimiter or line end.
bool has_quoted_fields(std::span<const std::byte> text, char delimiter) {
  const std::string_view all(reinterpret_cast<const char*>(text.data()), text.size());
  return all.find(std::string(1, delimiter) + '"') != all.npos || all.find("\n\"") != all.npos;
}

/// Whether a space follows each delimiter outside of quotes, except in empty fields.
bool has_initial_spaces(std::span<const std::byte> text, CsvDialect dialect) {
  const std::string_view all(reinterpret_cast<const char*>(text.data()), text.size());
  bool quoted = false, any = false;
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    if (dialect.quoting && all[i] == '"') quoted = !quoted;
    if (quoted || all[i] != dialect.delimiter) continue;
    const char after = all[i + 1];
    any = any || after == ' ';
    if (after != ' ' && after != dialect.delimiter && after != '\n' && after != '\r') return false;
  }
  return any;
}

}  // namespace

bool has_decimal_comma(std::string_view field) {
  return field.find(',') != field.npos && is_decimal(field, ',');
}

DetectedDialect detect_dialect(std::span<const std::byte> text, CsvDialect usual) {
  const std::span<const std::byte> start = start_of(text);
  DetectedDialect best{usual, false, false};
  std::optional<DialectFit> best_fit;
  const auto consider = [&](CsvDialect dialect) {
    const std::optional<DialectFit> fit = fit_of(start, dialect);
    if (!fit) return;
    const bool better = !best_fit || fit->share() > best_fit->share();
    if (!better) return;
    best_fit = fit;
    best = {dialect, dialect.delimiter != ',' && fit->decimal_commas > 0 && !fit->decimal_points,
            true};
  };
  const auto dialect_of = [&](char delimiter) {
    CsvDialect dialect{delimiter, delimiter != '\t' || has_quoted_fields(start, delimiter)};
    dialect.skip_initial_space = has_initial_spaces(start, dialect);
    return dialect;
  };
  consider(dialect_of(usual.delimiter));
  for (const char delimiter : kDelimiters) {
    if (delimiter != usual.delimiter) consider(dialect_of(delimiter));
  }
  return best;
}

}  // namespace accel
