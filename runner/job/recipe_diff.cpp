#include "runner/job/recipe_diff.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "runner/checkpoint/layout.h"

namespace accel {
namespace {

using Flat = std::vector<std::pair<std::string, std::string>>;

const std::string* value_of(const Flat& flat, const std::string& key) {
  const auto found =
      std::find_if(flat.begin(), flat.end(), [&](const auto& item) { return item.first == key; });
  return found == flat.end() ? nullptr : &found->second;
}

/// An item of a list, told from its neighbours.
std::string item_text(const Scalar& item) {
  const bool plain = !item.text.empty() && item.text.find_first_of(",[]' ") == std::string::npos;
  return plain ? item.text : "'" + item.text + "'";
}

/// The values of a recipe by key; a list of values is one of them.
void add_values(const Node& node, const std::string& path, Flat& out) {
  const auto add_inner = [&](const std::string& key, const Node& inner) {
    add_values(inner, path.empty() ? key : path + "." + key, out);
  };
  if (const Node::Map* map = node.map()) {
    for (const Node::Entry& entry : *map) add_inner(entry.key, entry.node);
    return;
  }
  const Node::List* list = node.list();
  if (!list) {
    out.emplace_back(path, node.scalar() ? node.scalar()->text : detail::inline_text(node));
    return;
  }
  const auto is_value = [](const Node& item) { return item.scalar() != nullptr; };
  if (!std::all_of(list->begin(), list->end(), is_value)) {
    for (size_t i = 0; i < list->size(); ++i) add_inner(std::to_string(i), (*list)[i]);
    return;
  }
  std::string text;
  for (const Node& item : *list) text += (text.empty() ? "" : ", ") + item_text(*item.scalar());
  out.emplace_back(path, "[" + text + "]");
}

Flat values_of(const Node& recipe) {
  Flat out;
  add_values(recipe, "", out);
  return out;
}

/// What the declaration of the option, or of the nearest section around it, says of a change.
Change change_of(const std::string& key, const std::vector<FieldInfo>& sections) {
  const std::vector<FieldInfo>* fields = &sections;
  std::string kind;
  Change change = Change::kConsent;
  size_t begin = 0;
  while (begin < key.size() && fields) {
    const size_t end = std::min(key.find('.', begin), key.size());
    const std::string word = key.substr(begin, end - begin);
    const auto field = std::find_if(fields->begin(), fields->end(),
                                    [&](const FieldInfo& info) { return info.name == word; });
    if (field == fields->end()) break;
    change = field->change;
    kind = field->kind;
    fields = field->fields.empty() ? nullptr : &field->fields;
    begin = end + 1;
  }
  const bool is_type = key.ends_with(".type") && begin + 4 == key.size();
  const bool shapes_state = kind == "model" || kind == "optimizer" || kind == "task";
  return is_type && shapes_state ? Change::kImpossible : change;
}

bool is_index(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c));
  });
}

/// What a dotted key may be made of.
class KeyWords {
 public:
  explicit KeyWords(const Registry& registry) : registry_(registry) {}

  /// Whether `key` is one of the fields or inside one; if not, `near` has the names in its place.
  bool has(const std::string& key, const std::vector<FieldInfo>& fields,
           std::vector<std::string>& near) const {
    const size_t end = std::min(key.find('.'), key.size());
    std::vector<std::string> names;
    bool known = false;
    for (const FieldInfo& field : fields) {
      names.push_back(field.name);
      if (field.name != key.substr(0, end)) continue;
      // Several components may have options of one name, not all with the same inside them.
      if (end == key.size() || has_inside(key.substr(end + 1), field, near)) return true;
      known = true;
    }
    if (!known) near = std::move(names);
    return false;
  }

 private:
  bool has_inside(const std::string& key, const FieldInfo& field,
                  std::vector<std::string>& near) const {
    const size_t end = std::min(key.find('.'), key.size());
    if (is_index(key.substr(0, end))) {
      return end == key.size() || has_inside(key.substr(end + 1), field, near);
    }
    std::vector<FieldInfo> inner = field.fields;
    for (const CatalogIndex* catalog : registry_.all()) {
      if (catalog->kind() != field.kind) continue;
      inner.emplace_back().name = "type";
      for (const auto& [name, component] : catalog->items()) {
        inner.insert(inner.end(), component.fields.begin(), component.fields.end());
      }
    }
    if (!inner.empty()) return has(key, inner, near);
    return field.json.find("\"object\"") != std::string::npos;
  }

  const Registry& registry_;
};

bool is_allowed(const std::string& key, const std::vector<std::string>& allowed) {
  return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& name) {
    // An item of a list is named by its number, but the list changes as one.
    return key == name || key.starts_with(name + ".") || name.starts_with(key + ".");
  });
}

std::string describe(const RecipeChange& change) {
  const auto text = [](const std::string& value) { return value.empty() ? "(none)" : value; };
  return "\n  " + change.key + ": was " + text(change.then) + ", is " + text(change.now);
}

}  // namespace

std::vector<RecipeChange> diff_recipes(const Node& then, const Node& now,
                                       const std::vector<FieldInfo>& sections) {
  const Flat before = values_of(then), after = values_of(now);
  std::vector<RecipeChange> changes;
  for (const auto& [key, value] : after) {
    const std::string* old = value_of(before, key);
    if (!old || *old != value) {
      changes.push_back({key, old ? *old : "", value, change_of(key, sections)});
    }
  }
  for (const auto& [key, value] : before) {
    if (!value_of(after, key)) changes.push_back({key, value, "", change_of(key, sections)});
  }
  return changes;
}

void check_changes(const std::vector<RecipeChange>& changes,
                   const std::vector<std::string>& allowed) {
  std::string impossible, unconsented, keys;
  for (const RecipeChange& change : changes) {
    if (change.change == Change::kImpossible) {
      impossible += describe(change);
    } else if (change.change == Change::kConsent && !is_allowed(change.key, allowed)) {
      unconsented += describe(change);
      keys += " --allow " + change.key;
    }
  }
  if (!impossible.empty()) {
    throw CheckpointError("the recipe no longer fits the checkpoint:" + impossible,
                          "start a new run under another 'name'");
  }
  if (!unconsented.empty()) {
    throw CheckpointError("the recipe has changed since the checkpoint:" + unconsented,
                          "to go on with the new values add" + keys);
  }
}

void check_allowed(const std::vector<std::string>& allowed, const std::vector<FieldInfo>& sections,
                   const Registry& registry) {
  const KeyWords words(registry);
  for (const std::string& key : allowed) {
    if (key == kOptimizerFile || key == kScalerFile || key == kRandomStatesFile) continue;
    std::vector<std::string> near;
    if (words.has(key, sections, near)) continue;
    const std::string last = key.substr(key.rfind('.') + 1);
    const std::string hint = last.empty() ? "" : did_you_mean(last, near);
    throw Error(ExitCode::kRecipe, "--allow is given '" + key + "', which no recipe has",
                hint.empty() ? "'accel-run show RECIPE' prints every key" : hint);
  }
}

}  // namespace accel
