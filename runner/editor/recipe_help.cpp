#include "runner/editor/recipe_help.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

namespace accel {
namespace {

using Json = nlohmann::json;

constexpr auto kTypeKey = "type";

bool is_position(const std::string& word) {
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
std::string facts_of_option(const FieldInfo& field) {
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
      return "\n\nA resumed run takes another value as it is.";
    case Change::kConsent:
      return "\n\nA resumed run takes another value with `--allow`.";
    case Change::kImpossible:
      return "\n\nA run cannot be resumed with another value.";
  }
  return "";
}

/// The words that a type's JSON Schema names.
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

/// The component that a value names, by `type` or bare; "" when it does not.
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

/// Fills in what can stand inside the value of `place.option`.
void RecipeHelp::open(Place& place) const {
  place.catalog = place.option->kind.empty() ? nullptr : catalog(place.option->kind);
  place.fields = place.option->fields;
  if (!place.catalog) return;
  const auto& items = place.catalog->items();
  const auto chosen = items.find(type_of(place.node));
  if (chosen != items.end()) {
    const std::vector<FieldInfo>& own = chosen->second.fields;
    place.fields.insert(place.fields.begin(), own.begin(), own.end());
    return;
  }
  for (const auto& [name, info] : items) {
    for (const FieldInfo& field : info.fields) {
      const auto same = [&](const FieldInfo& other) { return other.name == field.name; };
      if (std::none_of(place.fields.begin(), place.fields.end(), same)) {
        place.fields.push_back(field);
      }
    }
  }
}

/// Goes from a place to what is inside it; `place.option` is empty when that is nothing known.
void RecipeHelp::enter(Place& place, const std::string& word) const {
  const Node* inner = nullptr;
  if (const Node::List* list = place.node ? place.node->list() : nullptr; is_position(word)) {
    // An item of a list is what the list is declared to be of.
    if (list && word.size() < 6 && std::stoul(word) < list->size())
      inner = &(*list)[std::stoul(word)];
    place.node = inner;
    if (place.option) open(place);
    return;
  }
  if (const Node::Entry* entry = place.node ? place.node->find(word) : nullptr) {
    inner = &entry->node;
  }
  place.node = inner;
  if (word == kTypeKey && place.catalog) {
    place.is_type = true;
    place.fields.clear();
    return;
  }
  const std::string name = without_mark(word);
  const auto found = std::find_if(place.fields.begin(), place.fields.end(),
                                  [&](const FieldInfo& field) { return field.name == name; });
  if (found == place.fields.end()) {
    place.option.reset();
    place.catalog = nullptr;
    place.fields.clear();
    return;
  }
  place.option = FieldInfo(*found);
  open(place);
}

std::optional<RecipeHelp::Place> RecipeHelp::find(const Node& tree,
                                                  const std::vector<std::string>& path) const {
  Place place;
  place.node = &tree;
  place.fields = sections_;
  for (const std::string& word : path) {
    if (place.is_type) return std::nullopt;
    enter(place, word);
    if (!place.option && !place.is_type) return std::nullopt;
  }
  return place;
}

std::vector<Suggestion> RecipeHelp::keys(const Node& tree,
                                         const std::vector<std::string>& path) const {
  std::vector<Suggestion> out;
  const std::optional<Place> place = find(tree, path);
  if (!place || place->is_type) return out;
  if (place->catalog && !has_key(place->node, kTypeKey)) {
    out.push_back({kTypeKey, Suggestion::What::kOption, "the name of a " + place->catalog->kind(),
                   "Which " + place->catalog->kind() + '.'});
  }
  if (path.empty() && !has_key(place->node, "include")) {
    out.push_back({"include", Suggestion::What::kOption, "recipes",
                   "Recipes to build on, from left to right; this one is laid over them."});
  }
  for (const FieldInfo& field : place->fields) {
    if (field.handled || has_key(place->node, field.name)) continue;
    const auto what = takes_section(field) ? Suggestion::What::kSection : Suggestion::What::kOption;
    out.push_back({field.name, what, facts_of_option(field), field.help});
  }
  return out;
}

std::vector<Suggestion> RecipeHelp::values(const Node& tree,
                                           const std::vector<std::string>& path) const {
  std::vector<Suggestion> out;
  const std::optional<Place> place = find(tree, path);
  if (!place || path.empty()) return out;
  if (place->catalog) {
    for (const auto& [name, info] : place->catalog->items()) {
      out.push_back({name, Suggestion::What::kComponent, place->catalog->kind(), info.summary});
    }
    return out;
  }
  std::vector<std::string> words;
  append_words(Json::parse("{" + place->option->json + "}", nullptr, false), words);
  const std::string& fallback = place->option->fallback;
  const bool shown = place->option->fields.empty() && !fallback.empty() && fallback != "''";
  if (shown && std::find(words.begin(), words.end(), fallback) == words.end()) {
    words.push_back(fallback);
  }
  for (const std::string& word : words) {
    out.push_back(
        {word, Suggestion::What::kValue, word == fallback ? "default" : "", place->option->help});
  }
  return out;
}

std::string RecipeHelp::explain(const Node& tree, const std::vector<std::string>& path) const {
  const std::optional<Place> place = find(tree, path);
  if (!place || path.empty()) return {};
  std::string name;
  for (const std::string& word : path) name.append(name.empty() ? "" : ".").append(word);
  std::string out = std::string("**").append(name).append("**");
  if (place->is_type) {
    out.append(": which ").append(place->catalog->kind());
  } else {
    out.append(": ").append(facts_of_option(*place->option)).append("\n\n");
    out.append(place->option->help).append(resume_text(*place->option));
  }
  if (!place->catalog) return out;
  const std::string type = place->is_type && place->node && place->node->scalar()
                               ? place->node->scalar()->text
                               : type_of(place->node);
  const auto chosen = place->catalog->items().find(type);
  if (chosen == place->catalog->items().end()) return out;
  out.append("\n\n`").append(type).append("`: ").append(chosen->second.summary);
  return out;
}

}  // namespace accel
