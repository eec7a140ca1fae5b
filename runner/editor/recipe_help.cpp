#include "runner/editor/recipe_help.h"

#include <algorithm>
#include <cctype>

#include <nlohmann/json.hpp>

#include "core/base/text.h"

namespace accel {
namespace {

using Json = nlohmann::json;

constexpr auto kTypeKey = "type";

bool is_index(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c));
  });
}

/// `callbacks+` appends to `callbacks`, `data!` replaces `data`.
std::string without_mark(std::string key) {
  if (key.ends_with('+') || key.ends_with('!')) key.pop_back();
  return key;
}

/// "a number; more than 0; default 0.001"
std::string option_text(const FieldInfo& field) {
  std::string out = field.type;
  if (!field.rule.empty()) out.append("; ").append(field.rule);
  if (field.required) {
    out.append("; required");
  } else if (field.kind.empty() && field.fields.empty() && !field.fallback.empty()) {
    out.append("; default ").append(field.fallback);
  }
  return out;
}

const char* resume_text(const FieldInfo& field) {
  if (field.handled) return "";
  switch (field.change) {
    case Change::kFree:
      return "\n\nA resumed run accepts another value.";
    case Change::kConsent:
      return "\n\nA resumed run accepts another value with `--allow`.";
    case Change::kImpossible:
      return "\n\nA run cannot be resumed with another value.";
  }
  return "";
}

/// Enumerators and booleans in the JSON Schema of a type.
void append_words(const Json& json, std::vector<std::string>& out) {
  if (json.is_array()) {
    for (const Json& item : json) append_words(item, out);
    return;
  }
  if (!json.is_object()) return;
  if (json.value("type", Json()) == "boolean") out.insert(out.end(), {"true", "false"});
  if (json.contains("const") && json["const"].is_string()) out.push_back(json["const"]);
  for (const Json& word : json.value("enum", Json::array())) {
    if (word.is_string()) out.push_back(word);
  }
  for (const char* inner : {"anyOf", "items"}) {
    if (json.contains(inner)) append_words(json[inner], out);
  }
}

bool takes_section(const FieldInfo& field) {
  return !field.fields.empty() || !field.kind.empty() ||
         field.json.find("\"type\": \"object\"") != std::string::npos;
}

/// The component name in a value, by `type` or bare; "" without one.
std::string type_of(const Node* node) {
  if (!node) return {};
  const Node::Entry* type = node->find(kTypeKey);
  const Scalar* name = type ? type->node.scalar() : node->scalar();
  return name ? name->text : "";
}

bool has_key(const Node* node, const std::string& key) {
  return node && (node->find(key) || node->find(key + "+") || node->find(key + "!"));
}

}  // namespace

const CatalogIndex* RecipeHelp::catalog(const std::string& kind) const {
  for (const CatalogIndex* each : registry_.all()) {
    if (each->kind() == kind) return each;
  }
  return nullptr;
}

/// Sets the declarations inside the value of `at.option`.
void RecipeHelp::open(Declared& at) const {
  at.catalog = at.option->kind.empty() ? nullptr : catalog(at.option->kind);
  at.fields = at.option->fields;
  if (!at.catalog) return;
  const auto& items = at.catalog->items();
  const std::string type = type_of(at.node);
  const ComponentInfo* renamed = at.catalog->once_named(type);
  const auto chosen = items.find(renamed ? renamed->name : type);
  if (chosen != items.end()) {
    const std::vector<FieldInfo>& own = chosen->second.fields;
    at.fields.insert(at.fields.begin(), own.begin(), own.end());
    return;
  }
  for (const auto& [name, info] : items) {
    for (const FieldInfo& field : info.fields) {
      const auto same = [&](const FieldInfo& other) { return other.name == field.name; };
      if (std::none_of(at.fields.begin(), at.fields.end(), same)) {
        at.fields.push_back(field);
      }
    }
  }
}

/// Descends one key; `at.option` is empty for an unknown key.
void RecipeHelp::enter(Declared& at, const std::string& word) const {
  const Node* inner = nullptr;
  if (const Node::List* list = at.node ? at.node->list() : nullptr; is_index(word)) {
    // An item of a list has the declaration of the list.
    if (list && word.size() < 6 && std::stoul(word) < list->size())
      inner = &(*list)[std::stoul(word)];
    at.node = inner;
    if (at.option) open(at);
    return;
  }
  const Node* outer = at.node;
  if (const Node::Entry* entry = outer ? outer->find(word) : nullptr) inner = &entry->node;
  at.node = inner;
  if (word == kTypeKey && at.catalog) {
    at.is_type = true;
    at.fields.clear();
    return;
  }
  const std::string name = without_mark(word);
  const auto found = std::find_if(at.fields.begin(), at.fields.end(), [&](const FieldInfo& field) {
    return field.name == name || (!name.empty() && field.renamed_from == name);
  });
  if (found == at.fields.end()) {
    at.option.reset();
    at.catalog = nullptr;
    at.fields.clear();
    return;
  }
  if (const Node::Entry* entry = outer && !inner ? outer->find(found->name) : nullptr) {
    at.node = &entry->node;  // in a merged recipe, where names are replaced
  }
  at.option = FieldInfo(*found);
  open(at);
}

std::optional<RecipeHelp::Declared> RecipeHelp::find(const Node& tree,
                                                     const std::vector<std::string>& path) const {
  Declared at;
  at.node = &tree;
  at.fields = sections_;
  for (const std::string& word : path) {
    if (at.is_type) return std::nullopt;
    enter(at, word);
    if (!at.option && !at.is_type) return std::nullopt;
  }
  return at;
}

std::vector<Suggestion> RecipeHelp::keys(const Node& tree,
                                         const std::vector<std::string>& path) const {
  std::vector<Suggestion> out;
  const std::optional<Declared> at = find(tree, path);
  if (!at || at->is_type) return out;
  if (at->catalog && !has_key(at->node, kTypeKey)) {
    out.push_back({kTypeKey, Suggestion::Kind::kOption,
                   text("the name of a {}", at->catalog->kind()),
                   "Which " + at->catalog->kind() + '.'});
  }
  if (path.empty() && !has_key(at->node, "include")) {
    out.push_back({"include", Suggestion::Kind::kOption, "recipes",
                   "Base recipes, from left to right; this one overrides them."});
  }
  for (const FieldInfo& field : at->fields) {
    if (field.handled || has_key(at->node, field.name)) continue;
    if (!field.renamed_from.empty() && has_key(at->node, field.renamed_from)) continue;
    const auto kind = takes_section(field) ? Suggestion::Kind::kSection : Suggestion::Kind::kOption;
    out.push_back({field.name, kind, option_text(field), field.help});
  }
  return out;
}

std::vector<Suggestion> RecipeHelp::values(const Node& tree,
                                           const std::vector<std::string>& path) const {
  std::vector<Suggestion> out;
  const std::optional<Declared> at = find(tree, path);
  if (!at || path.empty()) return out;
  if (at->catalog) {
    for (const auto& [name, info] : at->catalog->items()) {
      out.push_back({name, Suggestion::Kind::kComponent, at->catalog->kind(), info.summary});
    }
    return out;
  }
  std::vector<std::string> words;
  append_words(Json::parse("{" + at->option->json + "}", nullptr, false), words);
  const std::string& fallback = at->option->fallback;
  const bool shown = at->option->fields.empty() && !fallback.empty() && fallback != "''";
  if (shown && std::find(words.begin(), words.end(), fallback) == words.end()) {
    words.push_back(fallback);
  }
  for (const std::string& word : words) {
    out.push_back(
        {word, Suggestion::Kind::kValue, word == fallback ? "default" : "", at->option->help});
  }
  return out;
}

std::string RecipeHelp::explain(const Node& tree, const std::vector<std::string>& path) const {
  const std::optional<Declared> at = find(tree, path);
  if (!at || path.empty()) return {};
  std::string name;
  for (const std::string& word : path) name.append(name.empty() ? "" : ".").append(word);
  std::string out = std::string("**").append(name).append("**");
  if (at->is_type) {
    out.append(": which ").append(at->catalog->kind());
  } else {
    if (path.back() == at->option->renamed_from) {
      out.append(", which is called `").append(at->option->name).append("` now");
    }
    out.append(": ").append(option_text(*at->option)).append("\n\n");
    out.append(at->option->help).append(resume_text(*at->option));
  }
  if (!at->catalog) return out;
  const std::string type =
      at->is_type && at->node && at->node->scalar() ? at->node->scalar()->text : type_of(at->node);
  const ComponentInfo* renamed = at->catalog->once_named(type);
  const auto chosen = at->catalog->items().find(renamed ? renamed->name : type);
  if (chosen == at->catalog->items().end()) return out;
  out.append("\n\n`").append(chosen->first).append("`: ").append(chosen->second.summary);
  return out;
}

}  // namespace accel
