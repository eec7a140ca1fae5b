#include "data/datasets/table_text.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/datasets/skipped_samples.h"

namespace accel {
namespace {

std::string delimiter_name(char delimiter) {
  return delimiter == '\t' ? "tabs" : single_quoted(std::string(1, delimiter));
}

std::string delimiter_hint(char delimiter, bool decimal_commas) {
  std::string hint = delimiter == '\t'
                         ? "write 'type: tsv'"
                         : accel::text("write 'delimiter: \"{}\"'", std::string(1, delimiter));
  if (decimal_commas) hint += ", and 'decimal: \",\"' for its decimal commas";
  return hint;
}

/// Whether the text has a digit, a comma and a digit.
bool has_decimal_comma(std::string_view text) {
  const auto digit = [&](size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  for (size_t at = text.find(',', 1); at != text.npos; at = text.find(',', at + 1)) {
    if (digit(at - 1) && digit(at + 1)) return true;
  }
  return false;
}

}  // namespace

TableText::TableText(const TableOptions& options, CsvDialect dialect, SharedBytes file)
    : path_(options.path.text), file_(std::move(file)), dialect_(dialect) {
  if (options.delimiter) dialect_.delimiter = (*options.delimiter)[0];
  dialect_.quoting = options.quoting.value_or(dialect_.quoting);
  dialect_.skip_initial_space = options.skip_initial_space;
  CsvReader reader = raw(dialect_.delimiter);
  Fields first;
  if (!reader.next(first)) throw DataError(accel::text("'{}' is empty", path_));
  if (!options.delimiter) check_delimiter(options);
  width_ = first.size();
  const std::vector<std::string> names(first.begin(), first.end());
  header_ = options.header ? *options.header : shows_header({names.begin(), names.end()}, options);
  if (header_) names_ = names;
}

std::string TableText::reading() const {
  return std::string("table ") + dialect_.delimiter + (dialect_.quoting ? "q" : "") +
         (dialect_.skip_initial_space ? "s" : "") + (header_ ? "h" : "") + " ";
}

CsvReader TableText::records() const {
  CsvReader reader = raw(dialect_.delimiter);
  Fields skipped;
  if (header_) reader.next(skipped);
  return reader;
}

/// Without numbers, the first record is a header if the options name one of its fields as a column,
/// or if the next readable record has a number.
bool TableText::shows_header(const Fields& first, const TableOptions& options) const {
  const auto is_first = [&](const std::string& name) {
    return std::find(first.begin(), first.end(), name) != first.end();
  };
  const auto is_named = [&](const auto& entry) { return is_first(entry.first); };
  const bool numbers = std::any_of(first.begin(), first.end(),
                                   [](std::string_view field) { return field_number(field); });
  const std::vector<std::string>& targets = options.target.names;
  const bool named = std::any_of(targets.begin(), targets.end(), is_first) ||
                     std::any_of(options.features.begin(), options.features.end(), is_first) ||
                     std::any_of(options.text.begin(), options.text.end(), is_first) ||
                     std::any_of(options.one_hot.begin(), options.one_hot.end(), is_named) ||
                     std::any_of(options.dates.begin(), options.dates.end(), is_named);
  if (!numbers && named) return true;
  BadSamples counted_later(options.on_bad_sample, path_);
  CsvReader reader = raw(dialect_.delimiter);
  Fields second;
  reader.next(second);
  while (true) {
    try {
      return reader.next(second) && looks_like_header(first, second);
    } catch (const DataError& error) {
      counted_later.leave_out(error);
    }
  }
}

CsvReader TableText::raw(char delimiter) const {
  CsvDialect dialect = dialect_;
  dialect.delimiter = delimiter;
  return {file_.view, dialect, path_};
}

/// Fields of each of the first records with this delimiter; 0 if their number differs.
size_t TableText::fields_by(char delimiter) const {
  constexpr int kRecords = 20;
  CsvReader reader = raw(delimiter);
  Fields fields;
  size_t count = 0;
  try {
    for (int i = 0; i < kRecords && reader.next(fields); ++i) count = fields.size();
  } catch (const DataError&) {
    return 0;
  }
  return count;
}

/// Refuses a table whose first records have one field, or differ in their number, when another
/// delimiter divides all of them alike.
void TableText::check_delimiter(const TableOptions& options) const {
  if (fields_by(dialect_.delimiter) > 1 || !options.text.empty()) return;
  for (const char other : {',', ';', '\t', '|'}) {
    const size_t fields = fields_by(other);
    if (fields < 2) continue;
    const std::string_view text(reinterpret_cast<const char*>(file_.view.data()),
                                std::min<size_t>(file_.view.size(), 4096));
    throw Error(
        ExitCode::kRecipe,
        accel::text("'{}' is not delimited by {}: its first lines have {} fields each "
                    "with {}",
                    path_, delimiter_name(dialect_.delimiter), fields, delimiter_name(other)),
        delimiter_hint(other, other != ',' && options.decimal == "." && has_decimal_comma(text)));
  }
}

}  // namespace accel
