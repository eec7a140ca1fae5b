#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/recipe/parse.h"
#include "core/recipe/toml_unicode_workaround.h"

namespace accel {
namespace {

/// Converts toml++'s tables into a tree of scalars as written: the type of a number is decided by
/// the option that reads it, as for YAML.
class TomlTree {
 public:
  TomlTree(const std::shared_ptr<const Source>& source, Diagnostics& problems)
      : source_(source), problems_(problems) {
    size_t begin = 0;
    for (size_t i = 0; i < source->text.size(); ++i) {
      if (source->text[i] != '\n') continue;
      lines_.push_back(begin);
      begin = i + 1;
    }
    lines_.push_back(begin);
  }

  /// toml++ counts characters; a Span counts bytes.
  Span place(const toml::source_position& position) {
    if (!position || position.line > lines_.size()) return {source_, 1, 1};
    const std::vector<uint32_t>& bytes = bytes_of(position.line - 1);
    const size_t column = std::min<size_t>(position.column - 1, bytes.size() - 1);
    return {source_, static_cast<int>(position.line), static_cast<int>(bytes[column]) + 1};
  }

  Span place_of(size_t offset) const {
    const auto next = std::upper_bound(lines_.begin(), lines_.end(), offset);
    const auto line = next - lines_.begin();
    return {source_, static_cast<int>(line), static_cast<int>(offset - *(next - 1)) + 1};
  }

  /// Start of the word that ends at or just before `where`.
  Span word_before(Span where) const {
    const std::string_view text = source_->text;
    const size_t line = line_of(where);
    size_t at = std::min(line + static_cast<size_t>(where.column) - 1, text.size());
    while (at > line && std::string_view(" \t=,[").find(text[at - 1]) == text.npos) --at;
    where.column = static_cast<int>(at - line) + 1;
    return where;
  }

  /// Position of the last `key` on the line up to `where`; else of the line's first word.
  Span key_on_line(Span where, const std::string& key) const {
    const std::string& text = source_->text;
    const size_t line = line_of(where);
    size_t at = text.rfind(key, line + static_cast<size_t>(where.column) - 1);
    if (at == text.npos || at < line) at = text.find_first_not_of(" \t[", line);
    where.column = static_cast<int>(at - line) + 1;
    return where;
  }

  Node convert(const toml::node& node, int depth) {
    const Span where = place(node.source().begin);
    if (++nodes_ == kMaxNodes + 1) report_too_many(where, problems_);
    if (nodes_ > kMaxNodes) return {};
    if (depth >= kMaxDepth && (node.is_table() || node.is_array())) {
      report_too_deep(where, problems_);
      return {};
    }
    if (const toml::table* table = node.as_table()) return convert_table(*table, where, depth);
    if (const toml::array* array = node.as_array()) {
      Node::List list;
      for (const toml::node& item : *array) list.push_back(convert(item, depth + 1));
      return {std::move(list), where};
    }
    if (const toml::value<std::string>* text = node.as_string()) {
      return scalar_node(from_plane15(text->get()), true, where);
    }
    if (node.is_date() || node.is_time() || node.is_date_time()) {
      problems_.error(where, "dates and times are not part of a recipe", "put the text in quotes");
      return {};
    }
    return scalar_node(written(where), false, where);
  }

  /// The non-ASCII character at `where`; else "".
  std::string stray_character(const Span& where) const {
    const std::string_view text = source_->text;
    const size_t at = line_of(where) + static_cast<size_t>(where.column) - 1;
    const size_t length = character_length(text, at);
    return length > 1 ? std::string(text.substr(at, length)) : "";
  }

 private:
  Node convert_table(const toml::table& table, const Span& where, int depth) {
    Node::Map map;
    for (const auto& [key, value] : table) {
      const Span key_place = place(key.source().begin);
      if (key.str().empty()) {
        report_empty_key(key_place, problems_);
        continue;
      }
      map.push_back({from_plane15(key.str()), key_place, convert(value, depth + 1)});
    }
    // toml++ sorts keys by name; a recipe keeps the order it was written in.
    std::stable_sort(map.begin(), map.end(), [](const Node::Entry& a, const Node::Entry& b) {
      return std::pair(a.where.line, a.where.column) < std::pair(b.where.line, b.where.column);
    });
    return {std::move(map), where};
  }

  /// The number or switch that starts at `where`.
  std::string written(const Span& where) const {
    const std::string_view text = source_->text;
    const size_t begin = line_of(where) + static_cast<size_t>(where.column) - 1;
    const size_t end = text.find_first_of(" \t\r\n,]}#", begin);
    return std::string(text.substr(begin, end - begin));
  }

  /// Byte offset of each character of the line, and of its end.
  const std::vector<uint32_t>& bytes_of(size_t line) {
    std::vector<uint32_t>& bytes = bytes_[line];
    if (!bytes.empty()) return bytes;
    const std::string& text = source_->text;
    const size_t begin = lines_[line];
    const size_t end = line + 1 < lines_.size() ? lines_[line + 1] : text.size();
    for (size_t at = begin; at < end; at += std::max<size_t>(1, character_length(text, at))) {
      bytes.push_back(static_cast<uint32_t>(at - begin));
    }
    bytes.push_back(static_cast<uint32_t>(end - begin));
    return bytes;
  }

  size_t line_of(const Span& where) const { return lines_[static_cast<size_t>(where.line) - 1]; }

  const std::shared_ptr<const Source>& source_;
  Diagnostics& problems_;
  std::vector<size_t> lines_;
  std::map<size_t, std::vector<uint32_t>> bytes_;  ///< cache per line: lines may be very long
  size_t nodes_ = 0;
};

/// Messages of toml++ and their replacements.
struct Wording {
  std::string_view theirs;
  std::string_view in;  ///< construct that was parsed
  const char* message;
  const char* hint = "";
};

constexpr auto kTooLarge = "a number is too large";
constexpr auto kOpenQuotes = "the quotes are never closed";
constexpr auto kCloseQuotes = "add the missing quote";

constexpr Wording kWordings[] = {
    {"could not determine value type", "", "this is no TOML value",
     "texts need quotes; switches are true and false"},
    {"leading zero", "", "a number starts with a zero", "leave the leading zero out"},
    {"representable in 64 bits", "", kTooLarge, "the largest is 9223372036854775807"},
    {"interpreted as a value", "floating-point", kTooLarge, "the largest is about 1.8e308"},
    {"expected value, saw '\\n'", "", "a value is missing"},
    {"end-of-file", "string", kOpenQuotes, kCloseQuotes},
    {"control characters other than TAB", "string", kOpenQuotes, kCloseQuotes},
    {"expected ']', saw '\\n'", "table header", "a '[' is never closed", "add the missing ']'"},
    {"end-of-file", "array", "a '[' is never closed", "add the missing ']'"},
    {"end-of-file", "inline table", "a '{' is never closed", "add the missing '}'"},
    {"end-of-file", "table header", "a '[' is never closed", "add the missing ']'"},
    {"end-of-file", "key-value", "a value is missing"},
    {"end-of-file", "value", "a value is missing"},
    {"maximum nested value depth", "", "the recipe is nested more than 64 deep"},
};

/// The first quoted word of a message.
std::string quoted_word(std::string_view message) {
  const size_t begin = message.find('\'');
  const size_t end = begin == message.npos ? begin : message.find('\'', begin + 1);
  return end == message.npos ? "" : std::string(message.substr(begin + 1, end - begin - 1));
}

/// "Error while parsing key-value pair: expected '=', saw 'x'" in the house form.
void report_syntax(const toml::parse_error& error, TomlTree& tree, Diagnostics& problems) {
  constexpr std::string_view kOpening = "Error while parsing ";
  const std::string description = from_plane15(error.description());
  std::string_view message = description, in;
  const size_t colon = message.find(": ");
  if (message.starts_with(kOpening) && colon != message.npos) {
    in = message.substr(kOpening.size(), colon - kOpening.size());
    message.remove_prefix(colon + 2);
  }
  Span where = tree.place(error.source().begin);
  const std::string stray = tree.stray_character(where);
  if (!stray.empty() && in.find("string") == in.npos) {
    problems.error(where, text("'{}' does not belong here", stray), "put the text in quotes");
    return;
  }
  if (message.starts_with("cannot redefine")) {
    const std::string key = quoted_word(message);
    if (key.empty()) {  // 'a = {b = 1}', then 'a.c = 2'
      problems.error(tree.key_on_line(where, key), "the section of this key is given twice",
                     "write all its options in one place");
      return;
    }
    problems.error(tree.key_on_line(where, key), text("'{}' is given twice", key));
    return;
  }
  const bool number = in.find("integer") != in.npos || in.find("floating") != in.npos;
  if (number) where = tree.word_before(where);
  for (const Wording& wording : kWordings) {
    if (message.find(wording.theirs) == message.npos || in.find(wording.in) == in.npos) continue;
    problems.error(where, wording.message, wording.hint);
    return;
  }
  problems.error(where, "not TOML: " + std::string(message) +
                            (in.empty() ? "" : ", in the " + std::string(in)));
}

}  // namespace

Node parse_toml(const std::shared_ptr<const Source>& source, Diagnostics& problems) {
  TomlTree tree(source, problems);
  if (const std::optional<size_t> reserved = first_in_plane15(source->text)) {
    problems.error(tree.place_of(*reserved), "recipes in TOML do not take U+F0000 to U+FFFFF",
                   "use another character");
    return {};
  }
  try {
    const toml::table table = toml::parse(to_plane15(source->text));
    Node root = tree.convert(table, 0);
    root.where = {source, 1, 1};
    return root;
  } catch (const toml::parse_error& error) {
    report_syntax(error, tree, problems);
    return {};
  }
}

}  // namespace accel
