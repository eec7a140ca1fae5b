// Recipe tree, the common form of YAML, TOML and command-line overrides.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/recipe/diagnostic.h"

namespace accel {

/// A leaf as written. Its type is decided by the option that reads it, not by the syntax.
struct Scalar {
  std::string text;
  bool quoted = false;  ///< written in quotes: a text, never a number or a switch
  /// Base of a relative path in the text, when a reference inserted it from another source.
  std::shared_ptr<const Source> base = nullptr;
  /// Value of a text with a `${secret:...}` reference; the text keeps the reference.
  std::shared_ptr<const std::string> secret = nullptr;
};

/// A value of a recipe and its position.
struct Node {
  struct Entry;
  using List = std::vector<Node>;
  using Map = std::vector<Entry>;  // in the order written

  using Value = std::variant<std::monostate, Scalar, List, Map>;

  Value value;  ///< monostate: null or left empty
  Span where;

  // Out of line: every component copies nodes, and copying a variant of trees is much code.
  Node();
  Node(Value value, Span where);
  Node(const Node&);
  Node(Node&&) noexcept;
  Node& operator=(const Node&);
  Node& operator=(Node&&) noexcept;
  ~Node();

  bool null() const { return std::holds_alternative<std::monostate>(value); }
  const Scalar* scalar() const { return std::get_if<Scalar>(&value); }
  const List* list() const { return std::get_if<List>(&value); }
  const Map* map() const { return std::get_if<Map>(&value); }
  Scalar* scalar() { return std::get_if<Scalar>(&value); }
  List* list() { return std::get_if<List>(&value); }
  Map* map() { return std::get_if<Map>(&value); }

  /// The entry of a map by key; null when absent or not a map.
  const Entry* find(std::string_view key) const;
  Entry* find(std::string_view key);

  /// For messages: "the text 'x'", "5", "a list", "a section", "nothing".
  std::string describe() const;
};

struct Node::Entry {
  std::string key;
  Span where;  ///< of the key
  Node node;
};

/// A scalar node; defaults and tests give no position.
Node scalar_node(std::string text, bool quoted = false, Span where = {});

/// Parses YAML or TOML by the path's extension (.toml is TOML, all else YAML) into a tree.
/// Caps: 256 KiB, depth 64; after alias expansion 10,000 nodes and 1 MiB of texts and keys.
/// Duplicate keys are refused.
/// Throws RecipeError with all errors.
Node parse_recipe(const std::string& path, std::string text);

/// The tree as YAML; parse_recipe() reads back an equal tree. `comment` returns the trailing
/// comment of a value ("recipe.yaml:3", "default"), or "".
std::string to_yaml(const Node& node, const std::function<std::string(const Node&)>& comment = {});

namespace detail {
/// A value as one line of text: "[128]", "none", "'a text'".
std::string inline_text(const Node& node);
}  // namespace detail

}  // namespace accel
