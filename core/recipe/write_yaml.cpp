#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "core/base/utf8.h"
#include "core/recipe/node.h"

namespace accel {
namespace {

constexpr size_t kFlowWidth = 80;      ///< longer lists get a line per item
constexpr size_t kKeyWidth = 1024;     ///< YAML requires '?' before a longer key
constexpr size_t kCommentColumn = 60;  ///< comments are aligned up to here

struct Line {
  std::string text;
  std::string comment;
};

bool is_null_word(std::string_view text) {
  return text == "~" || text == "null" || text == "Null" || text == "NULL";
}

/// Whether YAML parses the unquoted text to itself, in any position.
bool plain_is_safe(std::string_view text) {
  if (text.empty() || is_null_word(text)) return false;
  for (const char c : text) {
    const bool word = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (!word && std::string_view("_-+./% ").find(c) == std::string_view::npos) return false;
  }
  const bool opens = std::isalnum(static_cast<unsigned char>(text[0])) != 0 || text[0] == '_' ||
                     (text.size() > 1 && (text[0] == '-' || text[0] == '+' || text[0] == '.') &&
                      text[1] != ' ' && text[1] != '-' && (text[1] != '.' || text[0] != '.'));
  return opens && text.back() != ' ';
}

std::string yaml_quoted(std::string_view text) {
  if (printable(text) == text) {
    std::string out = "'";
    for (const char c : text) {
      if (c == '\'') out += c;
      out += c;
    }
    return out + '\'';
  }
  std::string out = "\"";
  static constexpr char kHex[] = "0123456789abcdef";
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(1, character_length(text, at));
    const char c = text[at];
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_control(text, at)) {
      // The last UTF-8 byte of U+0000 to U+009F is its code point.
      const auto code = static_cast<unsigned char>(text[at + length - 1]);
      out += {'\\', 'x', kHex[code >> 4], kHex[code & 15]};
    } else {
      out += text.substr(at, length);
    }
    at += length;
  }
  return out + '"';
}

std::string scalar_text(const Scalar& scalar) {
  return !scalar.quoted && plain_is_safe(scalar.text) ? scalar.text : yaml_quoted(scalar.text);
}

/// The value on one line; "" when it needs more.
std::string flow_text(const Node& node) {
  if (node.null()) return "~";
  if (const Scalar* scalar = node.scalar()) return scalar_text(*scalar);
  if (const Node::Map* map = node.map()) return map->empty() ? "{}" : "";
  std::string out = "[";
  for (const Node& item : *node.list()) {
    if (item.map() || item.list()) return "";
    out += (out.size() > 1 ? ", " : "") + flow_text(item);
  }
  return out.size() < kFlowWidth ? out + "]" : "";
}

/// Whether items of a list have no place of their own, so that comments are the list's.
bool has_items_without_place(const Node& node) {
  const Node::List* list = node.list();
  return list && std::any_of(list->begin(), list->end(),
                             [](const Node& item) { return item.scalar() && !item.where.source; });
}

class YamlWriter {
 public:
  explicit YamlWriter(const std::function<std::string(const Node&)>& comment) : comment_(comment) {}

  /// Writes `node` after `opening` ("key:" or "-"), its inner lines indented by `indent`.
  void value(const std::string& opening, const Node& node, size_t indent) {
    const std::string flow = flow_text(node);
    if (!flow.empty()) {
      lines_.push_back({opening + (opening.empty() ? "" : " ") + flow, comment(node)});
      return;
    }
    if (!opening.empty())
      lines_.push_back({opening, has_items_without_place(node) ? comment(node) : ""});
    inner(node, indent);
  }

  std::string text() const {
    size_t column = 0;
    for (const Line& line : lines_) {
      if (!line.comment.empty()) column = std::max(column, line.text.size());
    }
    column = std::min(column, kCommentColumn) + 2;
    std::string out;
    for (const Line& line : lines_) {
      out += line.text;
      if (!line.comment.empty()) {
        out.append(line.text.size() + 2 <= column ? column - line.text.size() : 2, ' ');
        out += "# " + line.comment;
      }
      out += '\n';
    }
    return out;
  }

 private:
  void inner(const Node& node, size_t indent) {
    const std::string space(indent, ' ');
    if (const Node::Map* map = node.map()) {
      for (const Node::Entry& entry : *map) {
        std::string opening = space;
        const std::string key = plain_is_safe(entry.key) ? entry.key : yaml_quoted(entry.key);
        if (key.size() > kKeyWidth) {
          lines_.push_back({space + "? " + key, {}});
        } else {
          opening += key;
        }
        value(opening + ':', entry.node, indent + 2);
      }
      return;
    }
    for (const Node& item : *node.list()) {
      if (const Scalar* scalar = item.scalar(); scalar && !item.where.source) {
        lines_.push_back({space + "- " + scalar_text(*scalar), {}});  // the list has the comment
        continue;
      }
      const size_t first = lines_.size();
      value(item.map() && !item.map()->empty() ? "" : space + "-", item, indent + 2);
      // The dash replaces a blank of the indentation of a section's first line.
      if (item.map() && !item.map()->empty()) lines_[first].text[indent] = '-';
    }
  }

  std::string comment(const Node& node) const {
    return comment_ ? printable(comment_(node)) : std::string();
  }

  const std::function<std::string(const Node&)>& comment_;
  std::vector<Line> lines_;
};

}  // namespace

std::string to_yaml(const Node& node, const std::function<std::string(const Node&)>& comment) {
  YamlWriter writer(comment);
  writer.value("", node, 0);
  return writer.text();
}

}  // namespace accel
