#include "core/recipe/key_hints.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/text.h"
#include "core/recipe/catalog_index.h"
#include "core/recipe/other_names.h"

namespace accel {
namespace {

constexpr size_t kLongestValue = 60;

/// The syntaxes that a recipe's values are written in.
enum class RecipeSyntax { kYaml, kToml, kArgument };

RecipeSyntax syntax_at(const Span& where) {
  const Source* source = where.source.get();
  if (!source) return RecipeSyntax::kYaml;
  if (source->kind == Source::Kind::kArgument) {
    const bool is_key = where.line == 1 && where.column == 1;
    return is_key ? RecipeSyntax::kArgument : RecipeSyntax::kYaml;
  }
  return source->path.ends_with(".toml") ? RecipeSyntax::kToml : RecipeSyntax::kYaml;
}

/// "model." of the argument "model.width=64".
std::string sections_of_argument(const std::string& argument) {
  const std::string key = argument.substr(0, argument.find('='));
  const size_t begin = key.starts_with('~') ? 1 : 0;
  const size_t dot = key.rfind('.');
  return dot == key.npos ? "" : key.substr(begin, dot + 1 - begin);
}

std::string toml_inline(const Node& node) {
  std::string out;
  if (const Scalar* scalar = node.scalar()) {
    const bool number = parse_number(*scalar).value.has_value();
    const bool bare = number || scalar->text == "true" || scalar->text == "false";
    return bare && !scalar->quoted ? scalar->text : '"' + scalar->text + '"';
  }
  if (const Node::List* list = node.list()) {
    for (const Node& item : *list) out += (out.empty() ? "" : ", ") + toml_inline(item);
    return "[" + out + "]";
  }
  if (!node.map()) return "\"\"";
  for (const Node::Entry& entry : *node.map()) {
    out += (out.empty() ? "" : ", ") + entry.key + " = " + toml_inline(entry.node);
  }
  return "{" + out + "}";
}

/// The same value in TOML, of one line of YAML.
std::string toml_of(const std::string& yaml) {
  try {
    return toml_inline(parse_recipe("value", "value: " + yaml).find("value")->node);
  } catch (const RecipeError&) {
    return '"' + yaml + '"';
  }
}

/// Key and value as the syntax at `where` joins them; `section` is for arguments, with its dot.
std::string option_text(const std::string& section, const std::string& name,
                        const std::string& value, const Span& where) {
  switch (syntax_at(where)) {
    case RecipeSyntax::kArgument:
      return section + name + (value.empty() ? "" : "=" + value);
    case RecipeSyntax::kToml:
      return name + (value.empty() ? "" : " = " + toml_of(value));
    case RecipeSyntax::kYaml:
      break;
  }
  return name + (value.empty() ? "" : ": " + value);
}

std::string shown_value(const Node& node) {
  if (node.null()) return {};
  const Scalar* scalar = node.scalar();
  const bool plain =
      scalar && scalar->text.find_first_of(":#,[]{}&*!|>'\"%@`") == std::string::npos;
  if (plain && !scalar->text.empty() && scalar->text.size() <= kLongestValue) return scalar->text;
  std::string text = detail::inline_text(node);
  return text.size() > kLongestValue ? "..." : text;
}

bool is_switched_off(const Node& node) {
  const Scalar* scalar = node.scalar();
  return scalar && parse_switch(*scalar).value == std::optional(false);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  if (const size_t at = text.find(from); at != text.npos) text.replace(at, from.size(), to);
  return text;
}

/// The part of "a>b|c>d|e" for a value: "b" for "a", "d" for "c", else "e".
std::string template_for(const std::string& all, const std::string& given) {
  for (size_t begin = 0;;) {
    const size_t end = std::min(all.find('|', begin), all.size());
    const std::string part = all.substr(begin, end - begin);
    const size_t arrow = part.find('>');
    if (arrow == part.npos) return part;
    if (part.substr(0, arrow) == given) return part.substr(arrow + 1);
    if (end == all.size()) return "{}";
    begin = end + 1;
  }
}

/// The last name of a path.
std::string last_name(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

/// The value to write for one that was given under another name; null: none, that is the default.
std::optional<std::string> carried_value(const OptionHint& hint, const Node& given) {
  constexpr auto kPlace = "{}", kPercent = "{percent}", kName = "{name}";
  const Scalar* scalar = given.scalar();
  const std::string text = template_for(hint.value, scalar ? scalar->text : "");
  if (text == kPlace) return shown_value(given);
  if (text.find(kPercent) != std::string::npos) {
    const std::optional<double> part = scalar ? parse_number(*scalar).value : std::nullopt;
    return replaced(text, kPercent, part ? show_number(*part * 100) + "%" : "...");
  }
  if (text.find(kName) != std::string::npos) {
    return replaced(text, kName, scalar ? last_name(scalar->text) : "...");
  }
  if (text.find(kPlace) != std::string::npos) {
    // "3 epochs" has a unit already.
    const bool has_unit = scalar && text.starts_with("{} ") && !parse_number(*scalar).value;
    if (has_unit) return shown_value(given);
    return replaced(text, kPlace, scalar ? shown_value(given) : "...");
  }
  const bool mapped = text != template_for(hint.value, "");
  return !mapped && is_switched_off(given) ? std::nullopt : std::optional(text);
}

/// An option somewhere in a recipe.
struct OptionPlace {
  FieldInfo field;
  std::vector<std::string> section;  ///< the names of the sections around it, from the top
  std::vector<std::string> owners;   ///< the components that have it, where it is one's
};

std::string joined_section(const OptionPlace& place) {
  std::string out;
  for (const std::string& name : place.section) out += (out.empty() ? "" : ".") + name;
  return out;
}

/// What is to be written, and in which section.
std::string with_section(const std::string& option, const OptionPlace& place, const Span& where) {
  if (syntax_at(where) == RecipeSyntax::kArgument) return text("write '{}'", option);
  if (place.section.empty()) return text("write '{}' at the top of the recipe", option);
  return text("write '{}' inside the section '{}'", option, joined_section(place));
}

/// Whether the type of an option, without its rule, takes a value.
bool takes_value(const FieldInfo& field, const std::string& value) {
  const auto has = [&](const std::string& json) { return field.json.find(json) != json.npos; };
  if (!has("\"enum\": [") || has('"' + value + '"')) return true;
  // The words are one alternative: "a number or 'none'".
  if (has("\"array\"") || has("\"string\"")) return true;
  const bool takes_numbers = has("\"number\"") || has("\"integer\"");
  return takes_numbers && parse_number({value}).value.has_value();
}

const OptionHint* hint_named(const FieldInfo& field, const std::string& name) {
  for (const OptionHint& hint : field.hints) {
    if (hint.name == name) return &hint;
  }
  return nullptr;
}

/// For an option that is known by another name; `own`: `place` is relative to the key's section,
/// else to the top of the recipe.
std::string hint_to_write(const OptionPlace& place, const OptionHint& hint,
                          const Node::Entry& given, bool own) {
  const std::optional<std::string> value = carried_value(hint, given.node);
  if (!value) return "leave it out";
  const bool known = takes_value(place.field, *value);
  const bool argument = syntax_at(given.where) == RecipeSyntax::kArgument;
  std::string section;
  if (argument && own) section = sections_of_argument(given.where.source->text);
  if (argument && !place.section.empty()) section += joined_section(place) + ".";
  const std::string option =
      option_text(section, place.field.name, known ? *value : "", given.where);
  const bool here = own && place.section.empty();
  const std::string out =
      here ? text("write '{}'", option) : with_section(option, place, given.where);
  return known ? out : text("{}: {}", out, place.field.type);
}

/// For an option of another name that components of several kinds have.
std::string hint_to_write(const std::vector<OptionPlace>& places, const Node::Entry& given) {
  constexpr std::string_view kWrite = "write ";
  std::string out;
  for (const OptionPlace& place : places) {
    const std::string each =
        hint_to_write(place, *hint_named(place.field, given.key), given, /*own=*/false);
    if (out.empty()) {
      out = each;
    } else if (each.starts_with(kWrite)) {
      out += ", or " + each.substr(kWrite.size());
    }
  }
  return out;
}

/// Looks through all options of a recipe for those that `matches`.
class OptionSearch {
 public:
  using Matches = bool (*)(const FieldInfo& field, const std::string& key);
  OptionSearch(const Registry& registry, std::string key, Matches matches)
      : registry_(registry), key_(std::move(key)), matches_(matches) {}

  /// The outermost one, sections before components.
  std::optional<OptionPlace> find(const std::vector<FieldInfo>& fields,
                                  const std::vector<std::string>& section) const {
    std::vector<OptionPlace> found = find_each(fields, section);
    return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
  }

  /// The same, or where no section has it, the outermost one in components of each kind.
  std::vector<OptionPlace> find_each(const std::vector<FieldInfo>& fields,
                                     const std::vector<std::string>& section) const {
    std::vector<OptionPlace> out;
    if (std::optional<OptionPlace> found = find_in_sections(fields, section)) {
      out.push_back(std::move(*found));
    } else {
      add_those_of_components(fields, section, out);
    }
    return out;
  }

  std::optional<OptionPlace> find_in_sections(const std::vector<FieldInfo>& fields,
                                              const std::vector<std::string>& section) const {
    for (const FieldInfo& field : fields) {
      if (matches_(field, key_)) return OptionPlace{field, section, {}};
    }
    for (const FieldInfo& field : fields) {
      if (auto found = find_in_sections(field.fields, inner(section, field))) return found;
    }
    return std::nullopt;
  }

 private:
  static std::vector<std::string> inner(std::vector<std::string> section, const FieldInfo& field) {
    section.push_back(field.name);
    return section;
  }

  void add_those_of_components(const std::vector<FieldInfo>& fields,
                               const std::vector<std::string>& section,
                               std::vector<OptionPlace>& out) const {
    for (const FieldInfo& field : fields) {
      const std::vector<std::string> within = inner(section, field);
      const auto is_of_kind = [&](const OptionPlace& place) {
        return place.field.kind == field.kind;
      };
      if (!field.kind.empty() && std::none_of(out.begin(), out.end(), is_of_kind)) {
        if (auto found = find_in_components(field.kind, within)) out.push_back(std::move(*found));
      }
      add_those_of_components(field.fields, within, out);
    }
  }

  std::optional<OptionPlace> find_in_components(const std::string& kind,
                                                const std::vector<std::string>& section) const {
    std::optional<OptionPlace> out;
    for (const CatalogIndex* catalog : catalogs_of(registry_)) {
      if (catalog->kind() != kind) continue;
      for (const auto& [name, component] : catalog->items()) {
        for (const FieldInfo& field : component.fields) {
          if (!matches_(field, key_)) continue;
          if (!out) out = OptionPlace{field, section, {}};
          out->owners.push_back(name);
          break;
        }
      }
      if (out) out->field.kind = kind;
    }
    return out;
  }

  const Registry& registry_;
  std::string key_;
  Matches matches_;
};

/// "adam, adamw, lion, ..."
std::string first_few(const std::vector<std::string>& names) {
  constexpr size_t kMost = 4;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) out += (i > 0 ? ", " : "") + names[i];
  return out + (names.size() > kMost ? ", ..." : "");
}

/// Whether `fields` are the options of a component of this kind.
bool are_of_kind(const std::vector<FieldInfo>& fields, const std::string& kind,
                 const Registry& registry) {
  const auto same = [](const FieldInfo& a, const FieldInfo& b) { return a.name == b.name; };
  for (const CatalogIndex* catalog : catalogs_of(registry)) {
    if (catalog->kind() != kind) continue;
    for (const auto& [name, component] : catalog->items()) {
      if (std::equal(fields.begin(), fields.end(), component.fields.begin(), component.fields.end(),
                     same)) {
        return true;
      }
    }
  }
  return false;
}

/// Whether a value may be that of an option: not a map where the option is no section or map.
bool holds(const FieldInfo& field, const Node& value) {
  if (!value.map() || value.map()->empty() || !field.fields.empty()) return true;
  return !field.kind.empty() || field.json.find("\"object\"") != field.json.npos;
}

/// Where an option of this very name belongs.
std::string place_hint(const OptionPlace& place, const Node::Entry& given,
                       const std::vector<FieldInfo>& own, const Reading& reading) {
  if (place.section.empty()) return text("'{}' belongs at the top of the recipe", given.key);
  const std::string& kind = place.field.kind;
  const std::string owners = first_few(place.owners);
  const bool several = place.owners.size() > 1;
  if (!place.owners.empty() && are_of_kind(own, kind, reading.registry)) {
    return several ? text("'{}' is an option of the {}s {}", given.key, kind, owners)
                   : text("'{}' is an option of the {} {}", given.key, kind, owners);
  }
  const std::string option =
      option_text(joined_section(place) + ".", given.key, shown_value(given.node), given.where);
  const std::string out = with_section(option, place, given.where);
  if (place.owners.empty()) return out;
  return several ? text("{}, where the {} is one of {}", out, kind, owners)
                 : text("{}, where the {} is {}", out, kind, owners);
}

}  // namespace

std::string quoted_option(const std::string& name, const Node::Entry& given) {
  const bool argument = syntax_at(given.where) == RecipeSyntax::kArgument;
  const std::string section = argument ? sections_of_argument(given.where.source->text) : "";
  return "'" + option_text(section, name, shown_value(given.node), given.where) + "'";
}

std::string unknown_key_hint(const Node::Entry& given, const std::vector<FieldInfo>& own,
                             const Reading& reading) {
  const std::string& key = given.key;
  const auto is_meant = [](const FieldInfo& field, const std::string& word) {
    return hint_named(field, word) != nullptr;
  };
  const OptionSearch meant(reading.registry, key, is_meant);
  if (const auto place = meant.find_in_sections(own, {})) {
    return hint_to_write(*place, *hint_named(place->field, key), given, /*own=*/true);
  }
  const size_t dot = key.find('.');
  std::vector<std::string> names, renamed;
  for (const FieldInfo& field : own) {
    names.push_back(field.name);
    if (!field.renamed_from.empty()) renamed.push_back(field.renamed_from);
    if (dot != key.npos && key.substr(0, dot) == field.name) {
      return text("write '{}' inside the section '{}'", key.substr(dot + 1), field.name);
    }
  }
  if (reading.problems.crowded()) return {};
  if (std::string near = did_you_mean(key, names); !near.empty()) return near;
  if (const std::string near = closest(key, renamed); !near.empty()) {
    const auto is_it = [&](const FieldInfo& field) { return field.renamed_from == near; };
    return text("did you mean '{}'?", std::find_if(own.begin(), own.end(), is_it)->name);
  }
  if (!reading.recipe) return other_key_hint(key);
  const std::vector<OptionPlace> places = meant.find_each(*reading.recipe, {});
  if (!places.empty()) return hint_to_write(places, given);
  const auto is_named = [](const FieldInfo& field, const std::string& word) {
    return field.name == word;
  };
  const auto place = OptionSearch(reading.registry, key, is_named).find(*reading.recipe, {});
  const bool is_place = place && holds(place->field, given.node);
  return is_place ? place_hint(*place, given, own, reading) : other_key_hint(key);
}

namespace detail {

std::string wrong_section_hint(const Node& value, const std::string& name,
                               const std::vector<FieldInfo>& fields, const Reading& reading) {
  const Scalar* scalar = value.scalar();
  if (!scalar || reading.problems.crowded()) return {};
  for (const FieldInfo& field : fields) {
    const OptionHint* hint = hint_named(field, scalar->text);
    if (!hint) continue;
    const Node::Entry given = {scalar->text, value.where, Node()};
    return hint_to_write({field, {name}, {}}, *hint, given, /*own=*/false);
  }
  return {};
}

}  // namespace detail
void report_unknown_keys(const Node::Map& section, const std::vector<FieldInfo>& fields,
                         Reading& reading) {
  for (const Node::Entry& entry : section) {
    const bool known = std::any_of(fields.begin(), fields.end(),
                                   [&](const FieldInfo& field) { return field.name == entry.key; });
    if (known || entry.key.starts_with("x-")) continue;
    reading.problems.error(entry.where, text("unknown option '{}'", entry.key),
                           unknown_key_hint(entry, fields, reading));
  }
}

}  // namespace accel
