#include "runner/editor/document.h"

#include <algorithm>
#include <cctype>

#include "core/base/utf8.h"
#include "core/recipe/parse.h"

namespace accel {
namespace {

size_t line_start(std::string_view text, size_t line) {
  size_t at = 0;
  for (size_t i = 0; i < line; ++i) {
    const size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return text.size();
    at = end + 1;
  }
  return at;
}

size_t line_end(std::string_view text, size_t start) {
  size_t end = std::min(text.find('\n', start), text.size());
  if (end > start && text[end - 1] == '\r') --end;
  return end;
}

/// Bytes and UTF-16 units of the character at `at`; a broken byte counts as one.
std::pair<size_t, size_t> width_of(std::string_view text, size_t at) {
  const size_t bytes = std::max<size_t>(1, character_length(text, at));
  return {bytes, bytes == 4 ? 2 : 1};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const int lower = std::tolower(static_cast<unsigned char>(c));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

constexpr std::string_view kFileScheme = "file://";

constexpr std::string_view kMark = "accelCursorMark";

bool is_toml_path(const std::string& path) {
  return path.ends_with(".toml");
}

/// Characters of names, of numbers with units and of paths.
bool is_word_part(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || (c & 0x80) != 0 ||
         std::string_view("_./-+~").find(c) != std::string_view::npos;
}

/// The tree; null for a syntax error.
Node parse_text(const std::string& path, std::string text) {
  const auto source = std::make_shared<const Source>(Source{path, std::move(text)});
  Diagnostics problems;
  if (!check_text(source, problems)) return {};
  return is_toml_path(path) ? parse_toml(source, problems) : parse_yaml(source, 0, problems);
}

/// The closing brackets and quotes that a text lacks.
std::string closers_of(std::string_view text, bool toml) {
  std::string open;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool at_start = i == 0 || std::string_view(" \t\n[{,:=(").find(text[i - 1]) != text.npos;
    if (quote) {
      if (c == '\\' && quote == '"')
        ++i;
      else if (c == quote || c == '\n')
        quote = 0;
    } else if (c == '#' && (at_start || toml)) {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if ((c == '"' || c == '\'') && at_start) {
      quote = c;
    } else if ((c == '{' || c == '[') && (at_start || !open.empty())) {
      open += c == '{' ? '}' : ']';
    } else if ((c == '}' || c == ']') && !open.empty()) {
      open.pop_back();
    }
  }
  std::string out(1, quote);
  if (!quote) out.clear();
  out.append(open.rbegin(), open.rend());
  return out;
}

bool in_comment(std::string_view text, size_t offset) {
  const size_t newline = offset == 0 ? text.npos : text.rfind('\n', offset - 1);
  size_t at = newline == text.npos ? 0 : newline + 1;
  char quote = 0;
  for (; at < offset; ++at) {
    const char c = text[at];
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#' && (at == 0 || std::isspace(static_cast<unsigned char>(text[at - 1])))) {
      return true;
    }
  }
  return false;
}

/// Whether TOML has a value at `offset`, not a dotted key.
bool behind_equals(std::string_view text, size_t offset) {
  const size_t newline = offset == 0 ? text.npos : text.rfind('\n', offset - 1);
  const size_t begin = newline == text.npos ? 0 : newline + 1;
  return text.substr(begin, offset - begin).find('=') != text.npos;
}

/// Finds the first key or value that contains the marker.
bool find_mark(const Node& node, std::vector<std::string>& path, bool& key) {
  if (const Scalar* scalar = node.scalar()) return scalar->text.find(kMark) != std::string::npos;
  if (const Node::List* list = node.list()) {
    for (size_t i = 0; i < list->size(); ++i) {
      path.push_back(std::to_string(i));
      if (find_mark((*list)[i], path, key)) return true;
      path.pop_back();
    }
  }
  if (const Node::Map* map = node.map()) {
    for (const Node::Entry& entry : *map) {
      if (entry.key.find(kMark) != std::string::npos) return key = true;
      path.push_back(entry.key);
      if (find_mark(entry.node, path, key)) return true;
      path.pop_back();
    }
  }
  return false;
}

/// Variants of the marker: a key first, since it parses only where a key is allowed.
std::vector<std::string> shapes_of_mark(bool toml) {
  const std::string mark(kMark);
  if (toml) return {mark + " = 0", mark, '"' + mark + '"'};
  return {mark + ": 0", mark};
}

/// Finds the marker if `patched` parses.
bool try_text(const std::string& path, std::string patched, RecipeCursor& out) {
  if (patched.size() > kMaxRecipeBytes) return false;
  Node tree = parse_text(path, patched);
  out.path.clear();
  out.key = false;
  if (!find_mark(tree, out.path, out.key)) return false;
  out.patched = std::move(patched);
  out.tree = std::move(tree);
  return true;
}

/// Length in bytes of the key or the plain or quoted value at `begin`.
size_t token_end(std::string_view text, size_t begin, size_t length) {
  const bool quoted = begin < text.size() && (text[begin] == '"' || text[begin] == '\'');
  return std::min(begin + length + (quoted ? 2 : 0), text.size());
}

/// Finds the word at an offset in the tree of the same text.
class WordFinder {
 public:
  WordFinder(const std::string& text, size_t offset) : text_(text), offset_(offset) {}

  bool find(const Node& node, RecipeWord& out) {
    if (const Scalar* scalar = node.scalar()) {
      return !scalar->text.empty() && covers(node.where, scalar->text.size(), out);
    }
    if (const Node::List* list = node.list()) {
      for (size_t i = 0; i < list->size(); ++i) {
        if (inside(std::to_string(i), (*list)[i], out)) return true;
      }
    }
    if (const Node::Map* map = node.map()) {
      for (const Node::Entry& entry : *map) {
        if (covers(entry.where, entry.key.size(), out)) {
          out.path.push_back(entry.key);
          return out.key = true;
        }
        if (inside(entry.key, entry.node, out)) return true;
      }
    }
    return false;
  }

 private:
  bool inside(const std::string& key, const Node& node, RecipeWord& out) {
    out.path.push_back(key);
    if (find(node, out)) return true;
    out.path.pop_back();
    return false;
  }

  bool covers(const Span& where, size_t length, RecipeWord& out) {
    if (where.line <= 0) return false;
    size_t begin = 0;
    for (int line = 1; line < where.line; ++line) begin = text_.find('\n', begin) + 1;
    begin = std::min(begin + static_cast<size_t>(where.column) - 1, text_.size());
    const size_t end = token_end(text_, begin, length);
    if (offset_ < begin || offset_ > end) return false;
    out.begin = begin;
    out.end = end;
    return true;
  }

  const std::string& text_;
  size_t offset_;
};

}  // namespace

size_t EditorDocument::offset_of(const EditorPosition& position) const {
  size_t at = line_start(text, position.line);
  const size_t end = line_end(text, at);
  for (size_t units = 0; at < end && units < position.character;) {
    const auto [bytes, more] = width_of(text, at);
    at += bytes;
    units += more;
  }
  return std::min(at, end);
}

EditorPosition EditorDocument::position_of(size_t offset) const {
  offset = std::min(offset, text.size());
  const std::string_view before = std::string_view(text).substr(0, offset);
  EditorPosition out;
  out.line = static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t newline = before.rfind('\n');
  size_t at = newline == std::string_view::npos ? 0 : newline + 1;
  while (at < offset) {
    const auto [bytes, units] = width_of(text, at);
    at += bytes;
    out.character += units;
  }
  return out;
}

size_t EditorDocument::offset_at(int line, int column) const {
  const size_t start = line_start(text, static_cast<size_t>(std::max(line, 1)) - 1);
  return std::min(start + static_cast<size_t>(std::max(column, 1)) - 1, text.size());
}

std::string path_of_uri(std::string_view uri) {
  if (!uri.starts_with(kFileScheme)) return {};
  uri.remove_prefix(kFileScheme.size());
  uri.remove_prefix(std::min(uri.find('/'), uri.size()));  // a host, as in file://localhost/
  std::string path;
  for (size_t i = 0; i < uri.size(); ++i) {
    const bool escape = uri[i] == '%' && i + 2 < uri.size() && hex_digit(uri[i + 1]) >= 0 &&
                        hex_digit(uri[i + 2]) >= 0;
    path += escape ? static_cast<char>(hex_digit(uri[i + 1]) * 16 + hex_digit(uri[i + 2])) : uri[i];
    if (escape) i += 2;
  }
  return path.find('\0') == std::string::npos ? path : std::string();
}

std::string uri_of_path(std::string_view path) {
  constexpr auto kDigits = "0123456789ABCDEF";
  std::string uri(kFileScheme);
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || std::string_view("/-._~").find(c) != std::string_view::npos) {
      uri += c;
    } else {
      uri += '%';
      uri += kDigits[byte / 16];
      uri += kDigits[byte % 16];
    }
  }
  return uri;
}

bool looks_like_recipe(std::string_view text) {
  for (size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size() - 1) + 1) {
    std::string_view line = text.substr(at, line_end(text, at) - at);
    if (line.starts_with('[')) line.remove_prefix(1);  // a table of TOML
    for (const std::string_view key : {"model", "data", "train", "optimizer", "recipe"}) {
      if (!line.starts_with(key)) continue;
      const size_t next = std::min(line.find_first_not_of(" !", key.size()), line.size());
      if (next < line.size() && std::string_view(":=].").find(line[next]) != line.npos) return true;
    }
  }
  return false;
}

std::optional<RecipeCursor> find_cursor(const std::string& path, const std::string& text,
                                        size_t offset) {
  offset = std::min(offset, text.size());
  if (in_comment(text, offset)) return std::nullopt;
  RecipeCursor out;
  out.begin = out.end = offset;
  const bool toml = is_toml_path(path);
  const bool dotted = toml && !behind_equals(text, offset);
  while (out.begin > 0 && is_word_part(text[out.begin - 1]) &&
         !(dotted && text[out.begin - 1] == '.')) {
    --out.begin;
  }
  while (out.end < text.size() && is_word_part(text[out.end])) ++out.end;
  if (text.compare(out.begin, out.end - out.begin, "-") == 0) ++out.begin;  // a list's item
  out.touches_colon = out.begin > 0 && text[out.begin - 1] == ':';
  const size_t line_end = std::min(text.find('\n', out.end), text.size());
  const std::string before = text.substr(0, out.begin) + (out.touches_colon ? " " : "");
  bool cut = false;
  for (const size_t kept : {text.size(), line_end, out.end}) {
    for (const std::string& shape : shapes_of_mark(toml)) {
      std::string patched = before + shape + text.substr(out.end, kept - out.end);
      if (cut) patched += closers_of(patched, toml);
      if (try_text(path, std::move(patched), out)) return out;
    }
    cut = true;
  }
  return std::nullopt;
}

Node parse_unfinished(const std::string& path, const std::string& text, size_t offset) {
  Node tree = parse_text(path, text);
  if (!tree.null()) return tree;
  const size_t line_end = std::min(text.find('\n', std::min(offset, text.size())), text.size());
  std::string part = text.substr(0, line_end);
  part += closers_of(part, is_toml_path(path));
  return parse_text(path, std::move(part));
}

std::optional<RecipeWord> find_word(const std::string& path, const std::string& text,
                                    size_t offset) {
  RecipeWord out;
  const Node tree = parse_unfinished(path, text, offset);
  if (!WordFinder(text, offset).find(tree, out)) return std::nullopt;
  out.tree = tree;
  return out;
}

}  // namespace accel
