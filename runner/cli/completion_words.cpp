#include "runner/cli/completion_words.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "runner/cli/load_recipe.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// "no", "fp16" of a type that ends with "{no,fp16}".
std::vector<std::string> listed_in(const std::string& type) {
  std::vector<std::string> out;
  const size_t begin = type.find('{'), end = type.rfind('}');
  if (begin == type.npos || end == type.npos) return out;
  std::stringstream names(type.substr(begin + 1, end - begin - 1));
  for (std::string name; std::getline(names, name, ',');) out.push_back(name);
  return out;
}

CompletionVerb verb_of(const CLI::App& app, const std::string& name) {
  CompletionVerb verb{.name = name, .help = app.get_description()};
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string> values = listed_in(option->get_type_name());
    if (option->get_lnames().empty()) {
      verb.takes_recipe = verb.takes_recipe || option->get_name() == "overrides";
      verb.words.insert(verb.words.end(), values.begin(), values.end());
      continue;
    }
    if (option->get_group().empty()) continue;  // not for people
    const std::string flag = "--" + option->get_lnames().back();
    verb.flags.emplace_back(flag, option->get_description());
    if (!values.empty()) verb.values[flag] = values;
  }
  return verb;
}

/// Every key below a prefix, once.
class KeyCollector {
 public:
  explicit KeyCollector(CompletionWords& out) : out_(out) {
    for (const CatalogIndex* catalog : components().all()) catalogs_[catalog->kind()] = catalog;
  }

  void add(const std::vector<FieldInfo>& fields, const std::string& prefix) {
    for (const FieldInfo& field : fields) {
      if (!field.handled) add(field, prefix + field.name);
    }
  }

 private:
  void add(const FieldInfo& field, const std::string& key) {
    const Json json = Json::parse("{" + field.json + "}", nullptr, false);
    const bool list = json.is_object() && json.value("type", Json()) == "array";
    if (!field.kind.empty() && !list) {
      add_components(*catalogs_.at(field.kind), key);
    } else if (field.fields.empty()) {
      enter(key, field.help);
      add_values(key, json);
    }
    if (!list) add(field.fields, key + ".");
  }

  void add_components(const CatalogIndex& catalog, const std::string& key) {
    enter(key + ".type", "Which " + catalog.kind() + ".");
    out_.values[key + ".type"] = catalog.names();
    // One of a kind within one of the same kind could have another within it, without an end.
    if (!open_.insert(catalog.kind()).second) return;
    for (const auto& [name, info] : catalog.items()) add(info.fields, key + ".");
    open_.erase(catalog.kind());
  }

  void enter(const std::string& key, const std::string& help) {
    if (entered_.insert(key).second) out_.keys.emplace_back(key, help);
  }

  void add_values(const std::string& key, const Json& json) {
    if (!json.is_object()) return;
    if (json.value("type", Json()) == "boolean") out_.values[key] = {"true", "false"};
    const auto names = json.find("enum");
    if (names == json.end()) return;
    for (const Json& name : *names) {
      if (name.is_string()) out_.values[key].push_back(name.get<std::string>());
    }
  }

  CompletionWords& out_;
  std::map<std::string, const CatalogIndex*> catalogs_;
  std::set<std::string> entered_;
  std::set<std::string> open_;  ///< kinds whose options are being added
};

std::vector<std::string> builtin_recipes() {
  std::vector<std::string> out;
  std::error_code missing;
  for (const auto& entry : fs::recursive_directory_iterator(builtin_folder(), missing)) {
    if (entry.path().extension() != ".yaml") continue;
    const fs::path name = fs::relative(entry.path(), builtin_folder()).replace_extension();
    out.push_back("builtin:" + name.string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

CompletionWords completion_words(const CLI::App& app) {
  CompletionWords out;
  std::vector<std::string> kinds;
  for (const CatalogIndex* catalog : components().all()) kinds.push_back(catalog->kind());
  for (const CLI::App* verb : app.get_subcommands({})) {
    out.verbs.push_back(verb_of(*verb, verb->get_name()));
    if (verb->get_name() == "list" || verb->get_name() == "explain") out.verbs.back().words = kinds;
    const auto group = out.verbs.size() - 1;
    for (const CLI::App* inner : verb->get_subcommands({})) {
      out.verbs[group].words.push_back(inner->get_name());
      out.verbs.push_back(verb_of(*inner, verb->get_name() + " " + inner->get_name()));
    }
  }
  KeyCollector(out).add(RecipeOptions::schema().info(), "");
  out.recipes = builtin_recipes();
  return out;
}

}  // namespace accel
