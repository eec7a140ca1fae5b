#include "core/recipe/deprecated_names.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/text.h"
#include "core/recipe/catalog_index.h"
#include "core/recipe/key_hints.h"

namespace accel {
namespace {

/// A key of a layer without its marks: "width" of "width+", "width!" and "~width".
struct MarkedKey {
  std::string before, name, after;

  explicit MarkedKey(std::string key) : name(std::move(key)) {
    if (name.size() < 2) return;
    if (name.front() == '~') {
      before = "~";
      name.erase(0, 1);
    } else if (name.back() == '+' || name.back() == '!') {
      after = name.substr(name.size() - 1);
      name.pop_back();
    }
  }
  std::string text() const { return before + name + after; }
};

const FieldInfo* field_of_name(const std::vector<FieldInfo>& fields, const std::string& name) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const FieldInfo& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

/// The field that had this name; null when none or several had it.
const FieldInfo* field_once_named(const std::vector<FieldInfo>& fields, const std::string& name) {
  const FieldInfo* found = nullptr;
  for (const FieldInfo& field : fields) {
    if (field.renamed_from != name || name.empty()) continue;
    if (found) return nullptr;
    found = &field;
  }
  return found;
}

bool has_marked(const Node::Map& map, const std::string& name) {
  return std::any_of(map.begin(), map.end(),
                     [&](const Node::Entry& entry) { return MarkedKey(entry.key).name == name; });
}

bool is_item_number(const std::string& key) {
  return !key.empty() && key.find_first_not_of("0123456789") == key.npos;
}

/// The item of a list that a dotted key's part names; null when there is none.
const Node* numbered_item(const Node& list, const std::string& number) {
  constexpr size_t kMostDigits = 6;
  if (number.size() > kMostDigits) return nullptr;
  const size_t index = std::stoul(number);
  return index < list.list()->size() ? &(*list.list())[index] : nullptr;
}

/// The scalar that names the type of a component, bare or in its section.
template <class Tree>
auto type_scalar(Tree& node) -> decltype(node.scalar()) {
  if (node.scalar()) return node.scalar();
  auto* type = node.find("type");
  return type ? type->node.scalar() : nullptr;
}

const Scalar* type_in(const TypeSources& types) {
  const Scalar* below = types.below ? type_scalar(*types.below) : nullptr;
  return below || !types.composed ? below : type_scalar(*types.composed);
}

/// The value of a key; null where there is no section or no key.
const Node* value_of(const Node* section, const std::string& key) {
  const Node::Entry* entry = section ? section->find(key) : nullptr;
  return entry ? &entry->node : nullptr;
}

class NameReplacer {
 public:
  NameReplacer(const Registry& registry, Diagnostics& problems)
      : registry_(registry), problems_(problems) {}

  void value(Node& node, const FieldInfo& field, const TypeSources& types) {
    if (!field.kind.empty()) {
      components(node, field, types);
    } else if (!field.fields.empty()) {
      section(node, field.fields, types);
    }
  }

 private:
  void components(Node& node, const FieldInfo& field, const TypeSources& types) {
    const Node::List* items = types.below ? types.below->list() : nullptr;
    if (Node::List* list = node.list()) {
      for (Node& item : *list) component(item, field, {});
    } else if (items && node.map()) {  // an override's path leads through the list
      for (Node::Entry& entry : *node.map()) {
        if (!is_item_number(entry.key)) return component(node, field, {});
        component(entry.node, field, {numbered_item(*types.below, entry.key)});
      }
    } else {
      component(node, field, types);
    }
  }

  void component(Node& node, const FieldInfo& field, const TypeSources& types) {
    std::vector<FieldInfo> fields = field.fields;
    for (const CatalogIndex* catalog : catalogs_of(registry_)) {
      if (catalog->kind() != field.kind) continue;
      Scalar* own = type_scalar(node);
      if (own) rename_type(*own, *catalog, node);
      const Scalar* type = own ? own : type_in(types);
      const auto found = type ? catalog->items().find(type->text) : catalog->items().end();
      if (found == catalog->items().end()) break;
      const std::vector<FieldInfo>& options = found->second.fields;
      fields.insert(fields.end(), options.begin(), options.end());
    }
    section(node, fields, types);
  }

  void rename_type(Scalar& type, const CatalogIndex& catalog, const Node& component) {
    if (catalog.items().contains(type.text)) return;
    const ComponentInfo* info = catalog.once_named(type.text);
    if (!info) return;
    const Node::Entry* entry = component.find("type");
    problems_.warning(entry ? entry->node.where : component.where,
                      text("the {} '{}' is called '{}' now", catalog.kind(), type.text, info->name),
                      text("write '{}'", info->name));
    type.text = info->name;
  }

  void section(Node& node, const std::vector<FieldInfo>& fields, const TypeSources& types) {
    if (!node.map()) return;
    for (size_t i = 0; i < node.map()->size();) {
      Node::Entry& entry = (*node.map())[i];
      MarkedKey key(entry.key);
      const FieldInfo* field = field_of_name(fields, key.name);
      if (!field) field = field_once_named(fields, key.name);
      if (!field) {
        ++i;
        continue;
      }
      if (key.name != field->name && !rename(*node.map(), entry, *field, std::move(key))) {
        node.map()->erase(node.map()->begin() + static_cast<ptrdiff_t>(i));
        continue;
      }
      const bool replaces = entry.key.ends_with('!');
      value(entry.node, *field,
            {replaces ? nullptr : value_of(types.below, field->name),
             value_of(types.composed, field->name)});
      ++i;
    }
  }

  /// False: reported.
  bool rename(const Node::Map& map, Node::Entry& entry, const FieldInfo& field, MarkedKey key) {
    if (has_marked(map, field.name)) {
      problems_.error(entry.where,
                      text("'{}' is called '{}' now, and both are given", key.name, field.name),
                      text("leave '{}' out", key.name));
      return false;
    }
    problems_.warning(entry.where, text("'{}' is called '{}' now", key.name, field.name),
                      text("write {}", quoted_option(field.name, entry)));
    key.name = field.name;
    entry.key = key.text();
    return true;
  }

  const Registry& registry_;
  Diagnostics& problems_;
};

/// The value of an override as a layer for the whole tree: `{a: {b: value}}`.
Node layer_of(const std::vector<std::string>& path, Node value, const Span& where) {
  for (size_t i = path.size(); i > 0; --i) {
    value = {Node::Map{{path[i - 1], where, std::move(value)}}, where};
  }
  return value;
}

/// The opposite: names in `path` become the layer's, and its innermost value is returned. Null when
/// an error took a name out of it.
std::optional<Node> split_layer(Node layer, std::vector<std::string>& path) {
  for (std::string& part : path) {
    if (!layer.map() || layer.map()->empty()) return std::nullopt;
    Node::Entry entry = std::move(layer.map()->front());
    part = std::move(entry.key);
    layer = std::move(entry.node);
  }
  return layer;
}

}  // namespace

DeprecatedNames::DeprecatedNames(std::vector<FieldInfo> sections, const Registry& registry)
    : registry_(registry) {
  root_.fields = std::move(sections);
}

DeprecatedNames DeprecatedNames::of_component(const std::string& kind, const Registry& registry) {
  DeprecatedNames out({}, registry);
  out.root_.kind = kind;
  return out;
}

void DeprecatedNames::replace(Node& tree, Diagnostics& problems, const TypeSources& types) const {
  NameReplacer(registry_, problems).value(tree, root_, types);
}

void DeprecatedNames::replace(KeyedValue& key, Diagnostics& problems,
                              const TypeSources& types) const {
  if (key.path.empty()) return;
  Node layer = layer_of(key.path, key.value, key.where);
  replace(layer, problems, types);
  if (std::optional<Node> value = split_layer(std::move(layer), key.path)) {
    key.value = std::move(*value);
  } else {
    key.path.clear();
  }
}

std::string DeprecatedNames::current_key(const std::string& key, const Node& recipe) const {
  KeyedValue asked;
  for (size_t begin = 0; begin <= key.size();) {
    const size_t end = std::min(key.find('.', begin), key.size());
    asked.path.push_back(key.substr(begin, end - begin));
    begin = end + 1;
  }
  Diagnostics unsaid;
  replace(asked, unsaid, {&recipe});
  std::string out;
  for (const std::string& part : asked.path) out += (out.empty() ? "" : ".") + part;
  return out;
}

}  // namespace accel
