#include "runner/draft/sniff_table.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace accel {
namespace {

using Record = std::vector<std::string>;

constexpr size_t kHeaderRecords = 200;

void check_encoding(std::string_view content, const std::string& path) {
  if (content.starts_with("\xff\xfe") || content.starts_with("\xfe\xff")) {
    throw DataError(text("'{}' is UTF-16, and UTF-8 is wanted", path),
                    text("convert it: iconv -f utf-16 -t utf-8 '{}' > utf8.csv", path));
  }
  if (is_utf8(content)) return;
  int64_t line = 1;
  for (size_t at = 0; at < content.size(); ++line) {
    const size_t end = std::min(content.find('\n', at), content.size());
    if (!is_utf8(content.substr(at, end - at))) break;
    at = end + 1;
  }
  throw DataError(text("{}:{} is not UTF-8", path, line),
                  text("convert it: iconv -f latin1 -t utf-8 '{}' > utf8.csv", path));
}

/// Calls `read`; an error of a row without a hint gets one.
template <class Read>
void with_row_hint(const std::string& path, const Read& read) try {
  read();
} catch (const DataError& error) {
  if (!error.hint().empty()) throw;
  throw DataError(
      error.what(),
      text("correct or remove the line; remove a title above the table: tail -n +2 '{}' "
           "> table.csv",
           path));
}

std::vector<Record> first_records(const SharedBytes& file, CsvDialect dialect,
                                  const std::string& path) {
  std::vector<Record> out;
  std::vector<std::string_view> fields;
  CsvReader reader(file.view, dialect, path);
  with_row_hint(path, [&] {
    while (out.size() < kHeaderRecords && reader.next(fields)) {
      out.emplace_back(fields.begin(), fields.end());
    }
  });
  return out;
}

/// How a column's first field compares with the fields below it.
struct HeaderEvidence {
  bool names_typed_column = false;  ///< a word above numbers or dates
  bool is_new_among_repeats = false;
  bool is_number = false;
};

HeaderEvidence evidence_of(const std::vector<Record>& records, size_t column, bool comma) {
  const std::string& first = records.front()[column];
  size_t numbers = 0, dates = 0, present = 0;
  std::set<std::string> values;
  for (size_t i = 1; i < records.size(); ++i) {
    const std::string& field = records[i][column];
    if (is_missing_text(field)) continue;
    ++present;
    numbers += table_number(field, comma).has_value();
    dates += is_date_text(field);
    values.insert(field);
  }
  HeaderEvidence out;
  out.is_number = table_number(first, comma).has_value();
  const bool is_word = !out.is_number && !is_missing_text(first) && !is_date_text(first);
  // A few words among the numbers are mistakes in the data rather than a sign of no header.
  out.names_typed_column = is_word && present > 0 && (numbers * 2 > present || dates * 2 > present);
  out.is_new_among_repeats =
      is_word && present >= 2 && !values.contains(first) && values.size() * 2 <= present;
  return out;
}

bool is_header(const std::vector<Record>& records, bool comma) {
  const Record& first = records.front();
  size_t repeats = 0;
  bool number = false;
  for (size_t i = 0; i < first.size(); ++i) {
    const HeaderEvidence evidence = evidence_of(records, i, comma);
    if (evidence.names_typed_column) return true;
    repeats += evidence.is_new_among_repeats;
    number = number || evidence.is_number;
  }
  static constexpr const char* kUsual[] = {"label", "target", "class", "text", "sentence",
                                           "id",    "name",   "date",  "index"};
  for (const std::string& name : first) {
    const std::string word = ascii_lower(trimmed(name));
    const auto is_usual = [&](const char* usual) { return word == usual; };
    if (std::any_of(std::begin(kUsual), std::end(kUsual), is_usual)) return true;
  }
  return !number && repeats * 2 >= first.size();
}

/// The names by which a recipe finds the columns: numbers for columns without a name and for names
/// that occur before.
std::vector<std::string> names_of(const Record& first, bool header) {
  std::vector<std::string> names;
  for (size_t i = 0; i < first.size(); ++i) {
    const bool is_unique = std::find(first.begin(), first.begin() + static_cast<ptrdiff_t>(i),
                                     first[i]) == first.begin() + static_cast<ptrdiff_t>(i);
    names.push_back(header && is_unique && !first[i].empty() ? first[i] : std::to_string(i));
  }
  return names;
}

std::set<std::string> repeated(const Record& names) {
  std::set<std::string> seen, twice;
  for (const std::string& name : names) {
    if (!name.empty() && !seen.insert(name).second) twice.insert(name);
  }
  return twice;
}

/// Throws for a first line that is a comment: its fields would be taken for the header.
void refuse_comment(std::string_view content, const std::string& path) {
  const size_t mark = content.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  const std::string_view line = content.substr(mark, content.find('\n', mark) - mark);
  std::string_view second = content.substr(mark);
  while (second.starts_with('#')) {
    second.remove_prefix(std::min(second.find('\n'), second.size() - 1) + 1);
  }
  const auto fields = [](std::string_view text) {
    text = text.substr(0, text.find('\n'));
    return std::count_if(text.begin(), text.end(), [](char c) {
      return std::string_view(",;\t|").find(c) != std::string_view::npos;
    });
  };
  if (!line.starts_with('#') || fields(line) == fields(second)) return;
  throw DataError(
      text("{}:1 is a comment, and the first line of a table is a header or a row", path),
      text("remove it: sed '/^#/d' '{}' > table.csv", path));
}

/// Throws for lines that end as on old Macintosh computers.
void refuse_carriage_returns(std::string_view content, const std::string& path) {
  const bool alone = content.find('\n') == content.npos && content.find('\r') != content.npos;
  if (!alone) return;
  throw DataError(text("the lines of '{}' end with a carriage return alone", path),
                  text("convert them: tr '\\r' '\\n' < '{}' > table.csv", path));
}

}  // namespace

SniffedTable sniff_table(const std::string& path, bool tab_separated) {
  const SharedBytes file = map_file(path);
  const std::string_view content = as_text(file.view);
  check_encoding(content, path);
  refuse_comment(content, path);
  refuse_carriage_returns(content, path);
  SniffedTable table;
  table.byte_order_mark = content.starts_with(kByteOrderMark);
  const CsvDialect usual = {tab_separated ? '\t' : ',', !tab_separated};
  table.dialect = detect_dialect(file.view, usual);
  const std::vector<Record> records = first_records(file, table.dialect.dialect, path);
  if (records.empty()) throw DataError(text("'{}' is empty", path));
  if (records.size() == 1) throw DataError(text("'{}' has one line, and no rows of data", path));
  if (table.dialect.decimal_comma) {
    with_row_hint(path, [&] { table.commas = read_commas(file, table.dialect.dialect, path); });
    table.dialect.decimal_comma = table.commas.decimal;
  }
  const bool comma = table.dialect.decimal_comma;
  table.header = is_header(records, comma);
  const std::vector<std::string> names = names_of(records.front(), table.header);
  if (table.header) table.repeated_names = repeated(records.front());
  std::vector<ColumnScan> scans(names.size(), ColumnScan(comma));
  CsvReader reader(file.view, table.dialect.dialect, path);
  std::vector<std::string_view> fields;
  if (table.header) reader.next(fields);
  with_row_hint(path, [&] {
    for (; reader.next(fields); ++table.rows) {
      for (size_t i = 0; i < fields.size(); ++i) scans[i].add(fields[i]);
    }
  });
  if (table.rows < 2) {
    throw DataError(text("'{}' has {} rows, at least 2 are needed to train", path, table.rows));
  }
  std::set<std::string> na_values;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& title = table.header ? records.front()[i] : names[i];
    table.columns.push_back(scans[i].finish(title, na_values));
    table.columns.back().name = names[i];
  }
  table.na_values.assign(na_values.begin(), na_values.end());
  return table;
}

}  // namespace accel
