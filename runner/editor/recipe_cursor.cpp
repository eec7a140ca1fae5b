#include "runner/editor/recipe_cursor.h"

#include <algorithm>
#include <cctype>
#include <functional>

#include "core/parse.h"

namespace accel {
namespace {

constexpr std::string_view kMark = "accelCursorMark";

bool is_toml_path(const std::string& path) {
  return path.ends_with(".toml");
}

/// Characters of names, of numbers with units and of paths.
bool is_word_part(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || (c & 0x80) != 0 ||
         std::string_view("_./-+~").find(c) != std::string_view::npos;
}

/// The tree, whatever else is wrong with it; null when the syntax is broken.
Node parse_text(const std::string& path, std::string text) {
  const auto source = std::make_shared<const Source>(Source{path, std::move(text)});
  Diagnostics problems;
  if (!check_text(source, problems)) return {};
  return is_toml_path(path) ? parse_toml(source, problems) : parse_yaml(source, 0, problems);
}

/// What closes the brackets and quotes that a text leaves open.
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

/// Whether TOML has a value at `offset`, not a key, whose parts dots divide.
bool behind_equals(std::string_view text, size_t offset) {
  const size_t newline = offset == 0 ? text.npos : text.rfind('\n', offset - 1);
  const size_t begin = newline == text.npos ? 0 : newline + 1;
  return text.substr(begin, offset - begin).find('=') != text.npos;
}

/// Puts into `path` and `key` where the first value or key is that holds the mark.
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

/// What the mark may stand as: a key first, since that parses only where a key can be.
std::vector<std::string> shapes_of_mark(bool toml) {
  const std::string mark(kMark);
  if (toml) return {mark + " = 0", mark, '"' + mark + '"'};
  return {mark + ": 0", mark};
}

/// Tells where the mark is when `patched` parses.
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

/// The bytes that a key or a plain or quoted value takes from `begin` on.
size_t token_end(std::string_view text, size_t begin, size_t length) {
  const bool quoted = begin < text.size() && (text[begin] == '"' || text[begin] == '\'');
  return std::min(begin + length + (quoted ? 2 : 0), text.size());
}

/// Looks for the word at an offset in a tree of the same text.
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
