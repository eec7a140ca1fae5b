// The recipe as a tree: YAML, TOML and the command line all become this.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/diagnostic.h"

namespace accel {

/// A leaf as it was written. Its type is decided by the option that reads it, not by the syntax.
struct Scalar {
  std::string text;
  bool quoted = false;  ///< written in quotes: a text, never a number or a switch
  /// Whose folder a relative path in the text belongs to, when a reference brought it from
  /// elsewhere.
  std::shared_ptr<const Source> base = nullptr;
  /// What a text with a `${secret:...}` reference stands for; the text keeps the reference.
  std::shared_ptr<const std::string> secret = nullptr;
};

/// One value of a recipe that knows where it was written.
struct Node {
  struct Entry;
  using List = std::vector<Node>;
  using Map = std::vector<Entry>;  // in the order written

  using Value = std::variant<std::monostate, Scalar, List, Map>;

  Value value;  ///< monostate: null or left empty
  Span where;

  // Out of line: nodes are copied in every component's file, and a variant of trees is much code.
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

  /// The entry of a map by key; null when absent or when this is no map.
  const Entry* find(std::string_view key) const;
  Entry* find(std::string_view key);

  /// How a message names it: "the text 'x'", "5", "a list", "a section", "nothing".
  std::string describe() const;
};

struct Node::Entry {
  std::string key;
  Span where;  ///< of the key
  Node node;
};

/// A scalar node without a place: for defaults and tests.
Node scalar_node(std::string text, bool quoted = false, Span where = {});

/// Parses YAML or TOML by the path's extension (.toml is TOML, all else YAML) into a tree.
/// Caps: 256 KiB, depth 64; after alias expansion 10,000 nodes and 1 MiB of texts and keys.
/// Duplicate keys are refused.
/// Throws RecipeError with every problem found.
Node parse_recipe(const std::string& path, std::string text);

/// The tree as YAML that parse_recipe reads back to an equal tree. `comment` gives the text put
/// behind a value ("recipe.yaml:3", "default"), or "" for none.
std::string to_yaml(const Node& node, const std::function<std::string(const Node&)>& comment = {});

}  // namespace accel
