#include "core/recipe/merge.h"

#include <unordered_map>
#include <utility>

#include "core/base/text.h"

namespace accel {
namespace {

std::string join(const std::string& section, const std::string& key) {
  return section.empty() ? key : section + '.' + key;
}

/// The scalar with a component's type, bare or in its section.
const Node* type_of(const Node& node) {
  if (node.scalar()) return &node;
  const Node::Entry* type = node.find("type");
  return type && type->node.scalar() ? &type->node : nullptr;
}

/// `name` as `{type: name}`.
Node as_section(const Node& bare) {
  return {Node::Map{{"type", bare.where, bare}}, bare.where};
}

/// The section that is merged into, with an index of its keys: recipes may have thousands.
class MergedSection {
 public:
  explicit MergedSection(Node& node) : map_(*node.map()) {
    for (size_t i = 0; i < map_.size(); ++i) index_.emplace(map_[i].key, i);
  }

  /// The value of `key`, empty when new. Valid until the next call.
  Node& at(const std::string& key, const Span& where) {
    const auto [found, fresh] = index_.emplace(key, map_.size());
    if (fresh) map_.push_back({key, where, {}});
    return map_[found->second].node;
  }

  /// Records the position of a replaced value and its key.
  void written(const std::string& key, const Span& where) { map_[index_.at(key)].where = where; }

 private:
  Node::Map& map_;
  std::unordered_map<std::string, size_t> index_;
};

void set_value(Node& base, const Node& value, const std::string& key, Merging& merging);

/// Removes the old type's options when `layer` names another type. The section is then `layer`'s.
void drop_old_options(Node& base, const Node& layer, const std::string& key, Merging& merging) {
  const Node* old_type = type_of(base);
  const Node* new_type = type_of(layer);
  if (!old_type || !new_type || old_type->scalar()->text == new_type->scalar()->text) return;
  for (const Node::Entry& entry : *base.map()) {
    if (entry.key == "type") continue;
    merging.history.push_back({join(key, entry.key), *new_type, Assignment::Effect::kDropped});
  }
  base.map()->clear();
  base.where = layer.where;
}

/// The items of a value where a list is expected.
Node::List items_of(const Node& node) {
  if (const Node::List* list = node.list()) return *list;
  return node.null() ? Node::List{} : Node::List{node};
}

void append(Node& base, const Node& value, const std::string& key, Merging& merging) {
  Node::List items = items_of(base);
  for (const Node& item : items_of(value)) {
    Node settled;
    History unused;  // the history records the list as a whole
    Merging quiet{unused, merging.problems};
    merge(settled, item, {}, quiet);
    items.push_back(std::move(settled));
  }
  base = {std::move(items), base.list() ? base.where : value.where};
  merging.history.push_back({key, value, Assignment::Effect::kAppended});
}

void merge_entry(MergedSection& section, const Node::Entry& entry, const std::string& key,
                 Merging& merging) {
  const std::string& written = entry.key;
  const char last = written.size() > 1 ? written.back() : '\0';
  if (last == '+' || last == '!') {
    const std::string name = written.substr(0, written.size() - 1);
    Node& base = section.at(name, entry.where);
    if (last == '+') {
      append(base, entry.node, join(key, name), merging);
    } else {
      base = {};
      set_value(base, entry.node, join(key, name), merging);
      section.written(name, entry.where);
    }
    return;
  }
  if (written.size() > 1 && written[0] == '~') {
    const std::string name = written.substr(1);
    const Scalar* value = entry.node.scalar();
    if (!entry.node.null() && !(value && value->text == "true")) {
      merging.problems.error(entry.node.where, text("'{}' takes no value", written),
                             text("write '{}': true", written));
    }
    Node& base = section.at(name, entry.where);
    base = {{}, entry.where};
    section.written(name, entry.where);
    merging.history.push_back({join(key, name), base});
    return;
  }
  Node& base = section.at(written, entry.where);
  const bool is_section = base.map() && entry.node.map();
  const Span before = base.where;
  merge(base, entry.node, join(key, written), merging);
  // A section of another component type replaces the old one.
  if (!is_section || !(base.where == before)) section.written(written, entry.where);
}

/// Sets `base`, which is empty, to the value without its marks.
void set_value(Node& base, const Node& value, const std::string& key, Merging& merging) {
  if (value.map()) {
    merge(base, value, key, merging);
    return;
  }
  base = value;
  if (const Node::List* list = value.list()) {
    base.list()->clear();
    append(base, {*list, value.where}, key, merging);
    merging.history.pop_back();
  }
  merging.history.push_back({key, value});
}

}  // namespace

History assignments_of(const History& history, std::string_view key) {
  const auto inside = [](std::string_view part, std::string_view whole) {
    return part.starts_with(whole) && (part.size() == whole.size() || part[whole.size()] == '.');
  };
  History out;
  for (const Assignment& assignment : history) {
    if (inside(assignment.key, key) || inside(key, assignment.key)) out.push_back(assignment);
  }
  return out;
}

void merge(Node& base, const Node& layer, const std::string& key, Merging& merging) {
  const bool renames = layer.scalar() && base.map() && base.find("type");
  if (!layer.map() && !renames) {
    base = {};
    set_value(base, layer, key, merging);
    return;
  }
  if (renames) {
    merge(base, as_section(layer), key, merging);
    return;
  }
  if (base.scalar()) base = as_section(base);
  if (!base.map()) base = {Node::Map{}, layer.where};
  drop_old_options(base, layer, key, merging);
  MergedSection section(base);
  for (const Node::Entry& entry : *layer.map()) merge_entry(section, entry, key, merging);
  if (layer.map()->empty()) merging.history.push_back({key, layer});
}

}  // namespace accel
