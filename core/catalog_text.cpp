#include "core/catalog_text.h"

#include <algorithm>
#include <sstream>

namespace accel {
namespace {

constexpr size_t kColumns = 100;

/// `text` broken at spaces, each line behind `indent` spaces; the first starts at `column`.
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
  if (hint.empty()) {
    for (const std::string& each : names) hint += (hint.empty() ? "there are " : ", ") + each;
  }
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
std::string facts_of(const FieldInfo& field) {
  std::string out = field.type;
  if (!field.rule.empty()) out += "; " + field.rule;
  if (field.required) return out + "; required";
  const bool has_default = field.fields.empty() && field.kind.empty() && !field.fallback.empty();
  if (has_default) out += "; default " + field.fallback;
  return out;
}

void append_options(std::string& out, const std::vector<FieldInfo>& fields, size_t indent) {
  const std::string margin(indent, ' ');
  for (const FieldInfo& field : fields) {
    const std::string start = margin + field.name + ": ";
    out += start + wrapped(facts_of(field), indent + 4, start.size());
    out += margin + "    " + wrapped(field.help, indent + 4, indent + 4);
    append_options(out, field.fields, indent + 4);
  }
}

}  // namespace

const CatalogIndex& catalog_of(const Registry& registry, const std::string& kind) {
  std::vector<std::string> kinds;
  for (const CatalogIndex* catalog : registry.all()) {
    if (catalog->kind() == kind) return *catalog;
    kinds.push_back(catalog->kind());
  }
  refuse("there is no kind of component named '" + kind + "'", kind, kinds);
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
  if (found == catalog.items().end()) {
    refuse("no " + catalog.kind() + " is named '" + name + "'", name, catalog.names());
  }
  const ComponentInfo& info = found->second;
  std::string out = catalog.kind() + ' ' + name + "\n  " + wrapped(info.summary, 2, 2);
  out += info.fields.empty() ? "\nIt has no options.\n" : "\noptions:\n";
  append_options(out, info.fields, 2);
  return out;
}

}  // namespace accel
