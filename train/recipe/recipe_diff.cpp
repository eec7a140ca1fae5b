#include "train/recipe/recipe_diff.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "checkpoint/file_names.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/key_lookup.h"

namespace accel {
namespace {

using Flat = std::vector<std::pair<std::string, std::string>>;

const std::string* value_of(const Flat& flat, const std::string& key) {
  const auto found =
      std::find_if(flat.begin(), flat.end(), [&](const auto& item) { return item.first == key; });
  return found == flat.end() ? nullptr : &found->second;
}

/// A list item, quoted if it is ambiguous in a list.
std::string item_text(const Scalar& item) {
  const bool plain = !item.text.empty() && item.text.find_first_of(",[]' ") == std::string::npos;
  return plain ? item.text : "'" + item.text + "'";
}

/// The values of a recipe by key; a list of scalars is one value.
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
  const auto to_text = [](const Node& item) { return item_text(*item.scalar()); };
  out.emplace_back(path, "[" + joined(*list, ", ", to_text) + "]");
}

Flat values_of(const Node& recipe) {
  Flat out;
  add_values(recipe, "", out);
  return out;
}

/// The Change declared by the section's option or the innermost section around it.
Change change_in_section(const std::string& key, const std::vector<FieldInfo>& sections) {
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

/// Decides on the changed values of a recipe.
struct Declarations {
  const std::vector<FieldInfo>& sections;
  const Registry& registry;
  const Flat& recipe;

  /// Whether a component of this type is at the key, or around it.
  bool has_component(const std::string& key, const std::string& type) const {
    for (size_t end = key.find('.'); end != key.npos; end = key.find('.', end + 1)) {
      const std::string* found = value_of(recipe, key.substr(0, end) + ".type");
      if (found && *found == type) return true;
    }
    return false;
  }

  /// A section that declares nothing leaves the decision to its component.
  Change change_of(const std::string& key) const {
    const Change of_section = change_in_section(key, sections);
    if (of_section != Change::kConsent) return of_section;
    std::optional<Change> declared;
    for (const DeclaredOption& option : find_key(key, sections, registry).options) {
      if (option.component.empty() || !has_component(key, option.component)) continue;
      declared = std::max(declared.value_or(Change::kFree), option.field.change);
    }
    return declared.value_or(of_section);
  }
};

bool is_allowed(const std::string& key, const std::vector<std::string>& allowed) {
  return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& name) {
    // A list item has an index in its key, but consent is for the whole list.
    return key == name || key.starts_with(name + ".") || name.starts_with(key + ".");
  });
}

std::string describe(const RecipeChange& change) {
  const auto shown = [](const std::string& value) { return value.empty() ? "(none)" : value; };
  return text("\n  {}: was {}, is {}", change.key, shown(change.then), shown(change.now));
}

/// The commands with a remark each, aligned: the hint of a refusal. "" without commands.
std::string commands_text(const RunAgain& again, const std::string& allow) {
  std::vector<std::pair<std::string, std::string>> lines;
  if (!again.resume.empty() && !allow.empty()) {
    lines.emplace_back(again.resume + allow, "resume with the change");
  }
  if (!again.start.empty()) {
    lines.emplace_back(again.start + " --new", text("a new run in {}", again.new_dir));
  }
  if (!again.start.empty() && !again.old_dir.empty()) {
    lines.emplace_back(again.start + " --fresh",
                       text("start over; the old run moves to {}", again.old_dir));
  }
  size_t width = 0;
  for (const auto& [command, remark] : lines) width = std::max(width, command.size());
  std::string out = lines.empty() ? "" : "use one of these commands:";
  for (const auto& [command, remark] : lines) {
    out += "\n    " + command + std::string(width - command.size(), ' ') + "  # " + remark;
  }
  return out;
}

}  // namespace

std::vector<RecipeChange> diff_recipes(const Node& then, const Node& now,
                                       const std::vector<FieldInfo>& sections,
                                       const Registry& registry) {
  const Flat before = values_of(then), after = values_of(now);
  const Declarations declared = {sections, registry, after};
  std::vector<RecipeChange> changes;
  for (const auto& [key, value] : after) {
    const std::string* old = value_of(before, key);
    if (!old || *old != value) {
      changes.push_back({key, old ? *old : "", value, declared.change_of(key)});
    }
  }
  for (const auto& [key, value] : before) {
    if (!value_of(after, key)) changes.push_back({key, value, "", declared.change_of(key)});
  }
  return changes;
}

void check_changes(const std::vector<RecipeChange>& changes,
                   const std::vector<std::string>& allowed, const RunAgain& again) {
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
    const std::string commands = commands_text(again, "");
    throw CheckpointError("the recipe no longer fits the checkpoint:" + impossible,
                          commands.empty() ? "start a new run under another 'name'" : commands);
  }
  if (!unconsented.empty()) {
    const std::string commands = commands_text(again, keys);
    throw CheckpointError("the recipe has changed since the checkpoint:" + unconsented,
                          commands.empty() ? "to resume with the new values add" + keys : commands);
  }
}

void check_allowed(const std::vector<std::string>& allowed, const std::vector<FieldInfo>& sections,
                   const Registry& registry) {
  for (const std::string& key : allowed) {
    if (key == kOptimizerFile || key == kScalerFile || key == kRandomStatesFile) continue;
    const KeyLookup found = find_key(key, sections, registry);
    if (found.known) continue;
    const std::string last = key.substr(key.rfind('.') + 1);
    const std::string hint = last.empty() ? "" : did_you_mean(last, found.valid_names);
    throw Error(ExitCode::kRecipe, text("--allow: no recipe has '{}'", key),
                hint.empty() ? "'accel-run show RECIPE' prints every key" : hint);
  }
}

}  // namespace accel
