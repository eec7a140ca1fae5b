// HTML of the reports: escaped text, numbers, tables, and a page for screens, phones and print.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accel {

/// Escaped for text and quoted attributes, valid UTF-8, without the control characters that XML
/// forbids: names and values come from untrusted files.
std::string html_text(std::string_view text);

/// "<name>" around the escaped text.
std::string html_element(const std::string& name, std::string_view text);

/// A number for readers: whole, or with at most `digits` digits, such as "0.01235", "1.5e-07" or
/// "12,345".
std::string number_words(double value, int digits = 4);

/// A coordinate with at most one decimal.
std::string coordinate(double value);

/// "1:02:03", "4:05" or "0.8 s".
std::string duration_words(double seconds);

/// "2026-01-31 12:00:00" of the UTC time "2026-01-31T12:00:00Z"; other texts are unchanged.
std::string time_words(const std::string& time);

struct TableCell {
  std::string text;
  std::string raw = {};        ///< the exact value, shown on hover; empty: that is the text
  std::string css_class = {};  ///< "best"
};

/// A rounded number with its exact value.
TableCell number_cell(double value, int digits = 4);

using HtmlRow = std::vector<TableCell>;

/// The first cell of a row names it; a `head` names the columns. On narrow screens each value is on
/// a separate line after the name of its column. Empty without rows.
std::string html_table(const HtmlRow& head, const std::vector<HtmlRow>& rows);

/// The shortest digits that give the same number.
std::string exact_number(double value);

/// The attribute ` title="..."` with the unrounded text; empty where both are the same.
std::string raw_attribute(const std::string& raw, const std::string& shown);

/// A whole HTML document around `body` with an inline style. Its content security policy forbids
/// scripts and external resources.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace accel
