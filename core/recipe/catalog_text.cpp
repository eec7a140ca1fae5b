#include "core/recipe/catalog_text.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "core/base/text.h"
#include "core/recipe/key_lookup.h"
#include "core/recipe/other_names.h"

namespace accel {
namespace {

constexpr size_t kColumns = 100;

/// `text` wrapped at spaces, each line indented by `indent`; the first starts at `column`.
std::string wrapped(const std::string& text, size_t indent, size_t column) {
  std::istringstream words(text);
  std::string out, word;
  size_t at = column;
  for (bool first = true; words >> word; first = false) {
    if (!first && at + 1 + word.size() > kColumns) {
      out += '\n' + std::string(indent, ' ');
      at = indent;
    } else if (!first) {
      out += ' ';
      ++at;
    }
    out += word;
    at += word.size();
  }
  return out + '\n';
}

[[noreturn]] void refuse(const std::string& message, const std::string& name,
                         const std::vector<std::string>& names) {
  std::string hint = did_you_mean(name, names);
  if (hint.empty() && !names.empty()) hint = "there are " + joined(names);
  throw Error(ExitCode::kRecipe, message, hint);
}

std::string catalog_lines(const CatalogIndex& catalog) {
  std::string out = catalog.kind() + '\n';
  size_t width = 0;
  for (const std::string& name : catalog.names()) width = std::max(width, name.size());
  for (const auto& [name, info] : catalog.items()) {
    const size_t column = width + 4;
    const std::string gap(width - name.size() + 2, ' ');
    out += "  " + name + gap + wrapped(info.summary, column, column);
  }
  if (catalog.items().empty()) out += "  none\n";
  return out;
}

/// "a whole number; at least 1; default 10"
std::string constraints_of(const FieldInfo& field) {
  std::string out = field.type;
  if (!field.rule.empty()) out += "; " + field.rule;
  const bool has_default = field.fields.empty() && field.kind.empty() && !field.fallback.empty();
  if (field.required) {
    out += "; required";
  } else if (has_default) {
    out += "; default " + field.fallback;
  }
  if (!field.renamed_from.empty()) out += "; deprecated name: " + field.renamed_from;
  return out;
}

void append_options(std::string& out, const std::vector<FieldInfo>& fields, size_t indent) {
  const std::string margin(indent, ' ');
  for (const FieldInfo& field : fields) {
    const std::string start = margin + field.name + ": ";
    out += start + wrapped(constraints_of(field), indent + 4, start.size());
    out += margin + "    " + wrapped(field.help, indent + 4, indent + 4);
    append_options(out, field.fields, indent + 4);
  }
}

const char* resume_words(const FieldInfo& field) {
  if (field.handled) return "";
  switch (field.change) {
    case Change::kFree:
      return "On resume: may change.";
    case Change::kConsent:
      return "On resume: a change needs --allow.";
    case Change::kImpossible:
      return "On resume: cannot change.";
  }
  return "";
}

/// An option without its name: type, meaning, effect on a resume, and what is in it.
std::string described(const FieldInfo& field, const Registry& registry) {
  std::string out = "  " + wrapped(constraints_of(field), 2, 2) + "  " + wrapped(field.help, 2, 2);
  if (const std::string words = resume_words(field); !words.empty()) out += "  " + words + '\n';
  for (const CatalogIndex* catalog : registry.all()) {
    if (catalog->kind() != field.kind) continue;
    out += '\n' + catalog_lines(*catalog);
    out += text("\n'accel-run explain {} NAME' lists the options of one\n", catalog->kind());
  }
  if (!field.fields.empty()) out += "\noptions:\n";
  append_options(out, field.fields, 2);
  return out;
}

/// The declarations of one key; components that share one are listed below it.
std::string key_text(const std::string& key, const std::vector<DeclaredOption>& options,
                     const Registry& registry) {
  std::vector<std::pair<std::string, std::vector<std::string>>> distinct;
  for (const DeclaredOption& option : options) {
    const std::string words = described(option.field, registry);
    auto found = std::find_if(distinct.begin(), distinct.end(),
                              [&](const auto& each) { return each.first == words; });
    if (found == distinct.end()) found = distinct.insert(found, {words, {}});
    if (!option.component.empty()) found->second.push_back(option.component);
  }
  std::string out = key + '\n';
  for (const auto& [words, components] : distinct) {
    out += words;
    if (components.empty()) continue;
    const std::string start = "  Of ";
    out += start + wrapped(joined(components), start.size(), start.size());
  }
  return out;
}

/// Every component of this name, whatever its kind.
std::string components_text(const Registry& registry, const std::string& name) {
  std::string out;
  for (const CatalogIndex* catalog : registry.all()) {
    if (!catalog->items().contains(name) && !catalog->once_named(name)) continue;
    out += (out.empty() ? "" : "\n") + explain_text(*catalog, name);
  }
  return out;
}

/// The options under "adamw.lr": of the components with the first name.
std::vector<DeclaredOption> options_of_component(const std::string& word,
                                                 const Registry& registry) {
  const size_t dot = word.find('.');
  std::vector<DeclaredOption> out;
  for (const CatalogIndex* catalog : registry.all()) {
    const auto found = catalog->items().find(word.substr(0, dot));
    if (dot == word.npos || found == catalog->items().end()) continue;
    for (const DeclaredOption& each :
         find_key(word.substr(dot + 1), found->second.fields, registry).options) {
      out.push_back({each.field, catalog->kind() + " " + found->first});
    }
  }
  return out;
}

/// The dotted key of the first option with this name here or in another trainer; "" for none.
std::string key_named(const std::string& name, const std::vector<FieldInfo>& fields,
                      const std::string& section, const Registry& registry) {
  const auto is_meant = [&](const FieldInfo& field) {
    const auto has_name = [&](const OptionHint& hint) { return hint.name == name; };
    return field.name == name || std::any_of(field.hints.begin(), field.hints.end(), has_name);
  };
  for (const FieldInfo& field : fields) {
    if (is_meant(field)) return section + field.name;
  }
  for (const FieldInfo& field : fields) {
    const std::string inner = section + field.name + ".";
    if (const auto found = key_named(name, field.fields, inner, registry); !found.empty()) {
      return found;
    }
  }
  for (const FieldInfo& field : fields) {
    for (const CatalogIndex* catalog : registry.all()) {
      if (catalog->kind() != field.kind) continue;
      for (const auto& [component, info] : catalog->items()) {
        for (const FieldInfo& option : info.fields) {
          if (is_meant(option)) return section + field.name + "." + option.name;
        }
      }
    }
  }
  return "";
}

[[noreturn]] void refuse_word(const std::string& word, const KeyLookup& found,
                              const std::vector<FieldInfo>& sections, const Registry& registry) {
  const size_t dot = word.rfind('.');
  const std::string last = word.substr(dot == word.npos ? 0 : dot + 1);
  std::string key = key_named(last, sections, "", registry);
  std::vector<std::string> names = found.valid_names;
  if (dot == word.npos) {
    for (const CatalogIndex* catalog : registry.all()) {
      for (const std::string& name : catalog->names()) names.push_back(name);
    }
  }
  const std::string near = closest(last, names);
  if (key.empty() && !near.empty()) key = word.substr(0, word.size() - last.size()) + near;
  throw Error(ExitCode::kRecipe, text("no recipe key or component is named '{}'", word),
              key.empty()
                  ? "'accel-run list' shows the components, 'accel-run show RECIPE' the keys"
                  : text("did you mean '{}'?", key));
}

}  // namespace

std::string explain_word(const std::string& word, const std::vector<FieldInfo>& sections,
                         const Registry& registry) {
  const KeyLookup found = find_key(word, sections, registry);
  if (!found.options.empty()) return key_text(word, found.options, registry);
  if (found.known) {  // in a free-form section
    return explain_word(word.substr(0, word.rfind('.')), sections, registry);
  }
  if (const std::string components = components_text(registry, word); !components.empty()) {
    return components;
  }
  const std::vector<DeclaredOption> options = options_of_component(word, registry);
  if (!options.empty()) return key_text(word, options, registry);
  for (const CatalogIndex* catalog : registry.all()) {
    if (catalog->kind() == word) return catalog_lines(*catalog);
  }
  refuse_word(word, found, sections, registry);
}

const CatalogIndex& catalog_of(const Registry& registry, const std::string& kind) {
  std::vector<std::string> kinds;
  for (const CatalogIndex* catalog : registry.all()) {
    if (catalog->kind() == kind) return *catalog;
    kinds.push_back(catalog->kind());
  }
  refuse(text("there is no kind of component named '{}'", kind), kind, kinds);
}

std::string list_text(const Registry& registry, const std::string& kind) {
  if (!kind.empty()) return catalog_lines(catalog_of(registry, kind));
  std::string out;
  for (const CatalogIndex* catalog : registry.all()) {
    out += (out.empty() ? "" : "\n") + catalog_lines(*catalog);
  }
  return out;
}

std::string explain_text(const CatalogIndex& catalog, const std::string& name) {
  const auto found = catalog.items().find(name);
  if (const ComponentInfo* renamed = catalog.once_named(name);
      renamed && found == catalog.items().end()) {
    throw Error(ExitCode::kRecipe,
                text("the {} '{}' is called '{}' now", catalog.kind(), name, renamed->name),
                text("write '{}'", renamed->name));
  }
  if (found == catalog.items().end()) {
    const std::string message = text("no {} is named '{}'", catalog.kind(), name);
    const std::string other = other_component_hint(catalog.kind(), name);
    if (!other.empty()) throw Error(ExitCode::kRecipe, message, other);
    refuse(message, name, catalog.names());
  }
  const ComponentInfo& info = found->second;
  std::string out = catalog.kind() + ' ' + name + "\n  " + wrapped(info.summary, 2, 2);
  if (!info.renamed_from.empty()) out += "  deprecated name: " + info.renamed_from + '\n';
  out += info.fields.empty() ? "\nIt has no options.\n" : "\noptions:\n";
  append_options(out, info.fields, 2);
  return out;
}

}  // namespace accel
