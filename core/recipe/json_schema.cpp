#include "core/recipe/json_schema.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace accel {
namespace {

using Json = nlohmann::ordered_json;

Json reference_to(const std::string& definition) {
  return {{"$ref", "#/$defs/" + definition}};
}

/// The keywords of a field's own type and rule.
Json keywords_of(const FieldInfo& field) {
  try {
    return Json::parse("{" + field.json + "}");
  } catch (const Json::parse_error&) {
    throw std::logic_error("the JSON Schema keywords of '" + field.name +
                           "' are no JSON: " + field.json);
  }
}

/// A default as editors offer it: a JSON value where the text is one, else the text.
Json default_of(const std::string& text) {
  if (text.size() >= 2 && text.front() == '\'') return text.substr(1, text.size() - 2);
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json(text) : value;
}

/// Whether `json` has `word` as its type or among its types, at any depth of alternatives.
bool accepts_type(const Json& json, const std::string& word) {
  if (json.is_array()) {
    for (const Json& item : json) {
      if (item == word || accepts_type(item, word)) return true;
    }
    return false;
  }
  if (!json.is_object()) return false;
  const auto type = json.find("type");
  if (type != json.end() && (*type == word || accepts_type(*type, word))) return true;
  const auto alternatives = json.find("anyOf");
  return alternatives != json.end() && accepts_type(*alternatives, word);
}

/// Also accepts `${...}`, null and the recipe's spellings of numbers for the values of `json`.
/// Conditions instead of `anyOf` wherever the value selects the alternative: validators report a
/// failed condition, but only the fact of a failed `anyOf`.
Json loosened(Json json);

/// The same for the values inside `json`, not for `json` itself.
Json loosened_inside(Json json) {
  for (const char* key : {"items", "additionalProperties"}) {
    const auto found = json.find(key);
    if (found != json.end() && found->is_object()) *found = loosened(*found);
  }
  if (json.contains("anyOf")) {
    for (Json& choice : json["anyOf"]) choice = loosened_inside(choice);
  }
  return json;
}

bool is_word_list(const Json& json) {
  return json.contains("enum") || json.contains("const");
}

/// `words` as proposals of an editor: the empty alternative accepts everything.
Json proposals(Json words) {
  return Json::array({std::move(words), Json::object()});
}

/// A value of `json`, whose keywords are those of one type or several.
Json loosened_typed(const Json& json) {
  const bool number = accepts_type(json, "integer") || accepts_type(json, "number");
  const bool spelled = number && !accepts_type(json, "string");
  Json types = json["type"].is_array() ? json["type"] : Json::array({json["type"]});
  for (const char* more : {"string", "null"}) {
    if (std::find(types.begin(), types.end(), more) == types.end()) types.push_back(more);
  }
  // The condition repeats the types, so that a value of another type fails once.
  return {{"type", types},
          {"if", {{"type", types}, {"not", reference_to(spelled ? "spelled" : "deferred")}}},
          {"then", loosened_inside(json)}};
}

/// Words, a list and one other value, chosen by the value's type.
Json loosened_choice(const Json& words, const Json& list, const Json& other) {
  Json out = other.empty() ? Json::object() : loosened(other);
  if (!list.empty()) {
    Json inner = loosened_inside(list);
    inner.erase("type");
    Json chosen = {{"if", {{"type", "array"}}}, {"then", std::move(inner)}};
    if (!other.empty()) {
      chosen["else"] = std::move(out);
      if (other.contains("$ref") || is_word_list(other)) chosen["anyOf"] = proposals(other);
    }
    out = std::move(chosen);
  }
  if (words.empty()) return out;
  return {{"anyOf", proposals(words)}, {"if", words}, {"else", std::move(out)}};
}

Json loosened_alternatives(const Json& json) {
  Json words = Json::object(), list = Json::object(), other = Json::object();
  size_t kinds = 0;
  for (const Json& choice : json["anyOf"]) {
    Json& place = is_word_list(choice)                      ? words
                  : choice.value("type", Json()) == "array" ? list
                                                            : other;
    if (place.empty()) ++kinds;
    place = choice;
  }
  const bool distinct = kinds == json["anyOf"].size() && json.size() == 1;
  if (distinct && !(list.empty() && other.empty())) return loosened_choice(words, list, other);
  Json choices = Json::array({loosened_inside(json)});
  const bool number = accepts_type(json, "integer") || accepts_type(json, "number");
  choices.push_back(reference_to(number && !accepts_type(json, "string") ? "spelled" : "deferred"));
  return {{"anyOf", std::move(choices)}};
}

Json loosened(Json json) {
  if (json.empty()) return json;           // anything already
  if (json.contains("$ref")) return json;  // definitions of components are loosened
  if (json.contains("anyOf")) return loosened_alternatives(json);
  if (json.contains("type")) return loosened_typed(json);
  return {{"anyOf", proposals(json)}, {"if", {{"not", reference_to("deferred")}}}, {"then", json}};
}

bool has_default(const FieldInfo& field) {
  return !field.required && !field.handled && field.kind.empty() && field.fields.empty() &&
         !field.fallback.empty() && field.fallback != "''";
}

/// Writes the definitions that depend on the known components.
class SchemaWriter {
 public:
  explicit SchemaWriter(const Registry& registry) : registry_(registry) {}

  Json document(const std::vector<FieldInfo>& top) {
    Json root;
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema";
    root["title"] = "accel-run recipe";
    root.update(section(top));
    root["properties"]["include"] = {
        {"description", "Recipes to build on, from left to right; this one is laid over them."},
        {"type", Json::array({"string", "array"})},
        {"items", {{"type", "string"}}}};
    root["if"] = {{"not", {{"required", Json::array({"include"})}}}};
    root["then"] = completeness(top);
    definitions_["deferred"] = {
        {"anyOf", Json::array({{{"type", "string"}, {"pattern", "\\$\\{"}}, {{"type", "null"}}})}};
    definitions_["spelled"] = {
        {"anyOf",
         Json::array({reference_to("deferred"),
                      {{"type", "string"}, {"pattern", "^[-+]?[0-9_.]+([eE][-+]?[0-9]+)?$"}}})}};
    const Json typed = {{"if", {{"type", "object"}}},
                        {"then", {{"required", Json::array({"type"})}}}};
    definitions_["typed"] = typed;
    definitions_["typed"]["items"] = typed;
    for (const CatalogIndex* catalog : registry_.all()) define(catalog->kind(), *catalog, {});
    drop_unused(root);
    root["$defs"] = std::move(definitions_);
    return root;
  }

 private:
  /// Removes unreferenced definitions.
  void drop_unused(const Json& root) {
    const std::string text = root.dump() + definitions_.dump();
    std::vector<std::string> unused;
    for (const auto& [name, definition] : definitions_.items()) {
      if (text.find("\"#/$defs/" + name + '"') == std::string::npos) unused.push_back(name);
    }
    for (const std::string& name : unused) definitions_.erase(name);
  }

  /// An object with these keys and notes only.
  Json section(const std::vector<FieldInfo>& fields) {
    Json properties = Json::object();
    std::string names;
    for (const FieldInfo& field : fields) {
      add_property(properties, field.name, field);
      names += (names.empty() ? "" : "|") + field.name;
      if (field.renamed_from.empty()) continue;
      add_property(properties, field.renamed_from, field);
      names += "|" + field.renamed_from;
    }
    Json patterns = {{"^x-", true}};
    if (!names.empty()) patterns["^~(" + names + ")$"] = {{"type", "null"}};
    return {{"type", "object"},
            {"properties", std::move(properties)},
            {"patternProperties", std::move(patterns)},
            {"additionalProperties", false}};
  }

  /// A key, by its name or its deprecated one, with the marks that it can have.
  void add_property(Json& properties, const std::string& name, const FieldInfo& field) {
    const bool deprecated = name != field.name;
    const bool list = accepts_type(keywords_of(field), "array");
    const std::string quoted = "'" + field.name + "'";
    const auto add = [&](const std::string& key, Json value) {
      if (deprecated) {
        value["description"] = "Called " + quoted + " now.";
        value["deprecated"] = true;
      }
      properties[key] = std::move(value);
    };
    add(name, property(field));
    if (list) add(name + "+", variant(field, "Appends to " + quoted + "."));
    if (!field.kind.empty() || !field.fields.empty()) {
      add(name + "!", variant(field, "Replaces " + quoted + " whole."));
    }
  }

  /// The value of `key+` and `key!`, validated where it is a plain reference.
  Json variant(const FieldInfo& field, const std::string& help) {
    Json out = {{"description", help}};
    if (!field.kind.empty()) out.update(loosened(component_of(field)));
    return out;
  }

  Json property(const FieldInfo& field) {
    Json out;
    out["description"] = field.help + (field.rule.empty() ? "" : " Must be " + field.rule + ".");
    if (has_default(field)) out["default"] = default_of(field.fallback);
    out.update(loosened(value_of(field)));
    return out;
  }

  Json value_of(const FieldInfo& field) {
    if (!field.kind.empty()) return component_of(field);
    if (!field.fields.empty()) return section(field.fields);
    return keywords_of(field);
  }

  /// A component, with additional keys beside its options.
  Json component_of(const FieldInfo& field) {
    if (field.fields.empty()) return keywords_of(field);
    std::string definition = field.kind + "_with";
    for (const FieldInfo& extra : field.fields) definition += "_" + extra.name;
    for (const CatalogIndex* catalog : registry_.all()) {
      if (catalog->kind() == field.kind) define(definition, *catalog, field.fields);
    }
    FieldInfo redirected = field;
    const std::string from = "#/$defs/" + field.kind + '"';
    const std::string to = "#/$defs/" + definition + '"';
    for (size_t at = 0; (at = redirected.json.find(from, at)) != std::string::npos;
         at += to.size()) {
      redirected.json.replace(at, from.size(), to);
    }
    return keywords_of(redirected);
  }

  /// Adds the definition of a kind: one of its components, or the bare name of one without required
  /// options.
  void define(const std::string& name, const CatalogIndex& catalog,
              const std::vector<FieldInfo>& extra) {
    if (!started_.insert(name).second) return;  // a component may hold others of its kind
    Json names = Json::array(), bare = Json::array();
    Json choices = Json::array();
    for (const auto& [type, info] : catalog.items()) {
      names.push_back(type);
      std::vector<FieldInfo> fields = info.fields;
      fields.insert(fields.end(), extra.begin(), extra.end());
      Json component = section(fields);
      require(component, fields);
      if (component["required"].empty() && !component.contains("allOf")) bare.push_back(type);
      component["required"].push_back("type");
      const Json own = names_of_type(info);
      component["properties"]["type"] = own;
      component["properties"]["type"]["description"] = info.summary;
      choices.push_back(
          {{"if", {{"required", Json::array({"type"})}, {"properties", {{"type", own}}}}},
           {"then", std::move(component)}});
    }
    Json object = {{"type", "object"}, {"properties", {{"type", type_of(catalog, names)}}}};
    if (!choices.empty()) object["allOf"] = std::move(choices);
    Json word = {{"if", {{"not", reference_to("deferred")}}}, {"then", {{"enum", bare}}}};
    definitions_[name] = {{"anyOf", proposals({{"enum", bare}})},
                          {"if", {{"type", Json::array({"string", "null"})}}},
                          {"then", std::move(word)},
                          {"else", std::move(object)}};
  }

  /// The value of `type`. Editors propose current names, and mark deprecated ones.
  static Json type_of(const CatalogIndex& catalog, const Json& names) {
    Json known = names;
    Json alternatives = proposals({{"enum", names}});
    for (const auto& [type, info] : catalog.items()) {
      if (info.renamed_from.empty()) continue;
      known.push_back(info.renamed_from);
      alternatives.push_back({{"const", info.renamed_from},
                              {"description", "Called '" + type + "' now."},
                              {"deprecated", true}});
    }
    return {
        {"anyOf", std::move(alternatives)},
        {"if", {{"not", {{"anyOf", Json::array({{{"enum", known}}, reference_to("deferred")})}}}}},
        {"then", {{"enum", names}}}};
  }

  static Json names_of_type(const ComponentInfo& info) {
    if (info.renamed_from.empty()) return {{"const", info.name}};
    return {{"enum", Json::array({info.name, info.renamed_from})}};
  }

  /// Adds which keys a section must have; one that was renamed by either name.
  static void require(Json& section, const std::vector<FieldInfo>& fields) {
    Json names = Json::array();
    for (const FieldInfo& field : fields) {
      if (!field.required) continue;
      if (field.renamed_from.empty()) {
        names.push_back(field.name);
      } else {
        Json either = Json::array();
        for (const std::string& name : {field.name, field.renamed_from}) {
          either.push_back({{"required", Json::array({name})}});
        }
        section["allOf"].push_back({{"anyOf", std::move(either)}});
      }
    }
    section["required"] = std::move(names);
  }

  /// Keys that are required in a recipe without includes.
  static Json completeness(const std::vector<FieldInfo>& fields) {
    Json out;
    require(out, fields);
    for (const FieldInfo& field : fields) {
      if (!field.kind.empty()) {
        out["properties"][field.name] = reference_to("typed");
      } else if (!field.fields.empty()) {
        const Json inner = completeness(field.fields);
        out["properties"][field.name] = {{"if", {{"type", "object"}}}, {"then", inner}};
      }
    }
    return out;
  }

  const Registry& registry_;
  Json definitions_ = Json::object();
  std::set<std::string> started_;
};

}  // namespace

std::string json_schema(const std::vector<FieldInfo>& top, const Registry& registry) {
  return SchemaWriter(registry).document(top).dump(1) + '\n';
}

}  // namespace accel
