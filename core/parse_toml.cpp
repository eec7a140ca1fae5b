#include <toml++/toml.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/parse.h"
#include "core/utf8.h"

namespace accel {
namespace {

/// Turns toml++'s tables into a tree with the words as they were written: what a number is gets
/// decided by the option that reads it, as for YAML.
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
  Span place(const toml::source_position& position) const {
    if (!position || position.line > lines_.size()) return {source_, 1, 1};
    const size_t line = lines_[position.line - 1];
    size_t at = line;
    for (size_t i = 1; i < position.column && at < source_->text.size(); ++i) {
      at += std::max<size_t>(1, character_length(source_->text, at));
    }
    return {source_, static_cast<int>(position.line), static_cast<int>(at - line) + 1};
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
      return scalar_node(text->get(), true, where);
    }
    if (node.is_date() || node.is_time() || node.is_date_time()) {
      problems_.error(where, "dates and times are not part of a recipe", "put the text in quotes");
      return {};
    }
    return scalar_node(written(where), false, where);
  }

 private:
  Node convert_table(const toml::table& table, const Span& where, int depth) {
    Node::Map map;
    for (const auto& [key, value] : table) {
      map.push_back({std::string(key.str()), place(key.source().begin), convert(value, depth + 1)});
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
    const size_t begin =
        lines_[static_cast<size_t>(where.line) - 1] + static_cast<size_t>(where.column) - 1;
    const size_t end = text.find_first_of(" \t\r\n,]}#", begin);
    return std::string(text.substr(begin, end - begin));
  }

  const std::shared_ptr<const Source>& source_;
  Diagnostics& problems_;
  std::vector<size_t> lines_;
  size_t nodes_ = 0;
};

/// "Error while parsing key-value pair: expected '=', saw 'x'" in the house form.
std::string house_form(std::string_view message) {
  constexpr std::string_view kOpening = "Error while parsing ";
  if (message.starts_with(kOpening)) {
    message.remove_prefix(kOpening.size());
    const size_t colon = message.find(": ");
    if (colon != message.npos) {
      return "not TOML: " + std::string(message.substr(colon + 2)) + ", in the " +
             std::string(message.substr(0, colon));
    }
  }
  return "not TOML: " + std::string(message);
}

}  // namespace

Node parse_toml(const std::shared_ptr<const Source>& source, Diagnostics& problems) {
  TomlTree tree(source, problems);
  try {
    const toml::table table = toml::parse(std::string_view(source->text));
    Node root = tree.convert(table, 0);
    root.where = {source, 1, 1};
    return root;
  } catch (const toml::parse_error& error) {
    problems.error(tree.place(error.source().begin), house_form(error.description()));
    return {};
  }
}

}  // namespace accel
