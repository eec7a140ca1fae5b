#include "core/recipe/reference.h"

#include <cctype>
#include <map>

namespace accel {
namespace {

constexpr auto kOrigin =
    "<!-- Written by `accel-run reference` from the declarations in the code; change it there. -->"
    "\n\n";

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c));
}

/// Escapes Markdown markup, except inside backticks.
std::string markdown(const std::string& text) {
  std::string out;
  bool code = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '`') code = !code;
    const bool inside_word =
        i > 0 && i + 1 < text.size() && is_word(text[i - 1]) && is_word(text[i + 1]);
    const bool markup =
        c == '<' || c == '*' || c == '[' || c == ']' || c == '\\' || (c == '_' && !inside_word);
    if (c == '|' || (markup && !code)) out += '\\';
    out += c;
  }
  return out;
}

/// GitHub's anchor of a heading.
std::string anchor_of(const std::string& heading) {
  std::string out;
  for (const char c : heading) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) || c == '-' || c == '_') out += static_cast<char>(std::tolower(u));
  }
  return out;
}

std::string as_code(const std::string& text) {
  std::string out = "`";
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out + '`';
}

std::string default_cell(const FieldInfo& field) {
  if (field.required) return "required";
  if (!field.kind.empty() || !field.fields.empty() || field.fallback == "''") return "";
  return field.fallback.empty() ? "" : as_code(field.fallback);
}

const char* resume_cell(const FieldInfo& field) {
  if (field.handled) return "";
  switch (field.change) {
    case Change::kFree:
      return "free";
    case Change::kConsent:
      return "ask";
    case Change::kImpossible:
      return "never";
  }
  return "";
}

std::string type_cell(const FieldInfo& field) {
  std::string out = field.type;
  if (!field.kind.empty()) {
    // The kind's name becomes a link: "a list of [metric](metric.md)s".
    const size_t at = out.find(field.kind);
    const std::string link = '[' + field.kind + "](" + field.kind + ".md)";
    if (at == std::string::npos) return markdown(out) + " of " + link;
    return out.substr(0, at) + link + out.substr(at + field.kind.size());
  }
  return markdown(out) + (field.rule.empty() ? "" : ", " + markdown(field.rule));
}

void append_rows(std::string& out, const std::vector<FieldInfo>& fields,
                 const std::string& prefix) {
  for (const FieldInfo& field : fields) {
    const std::string name = prefix + field.name;
    out += "| `" + name + "` | " + type_cell(field) + " | " + default_cell(field) + " | " +
           resume_cell(field) + " | " + markdown(field.help) + " |\n";
    append_rows(out, field.fields, name + '.');
  }
}

std::string table(const std::vector<FieldInfo>& fields, const std::string& prefix = "") {
  std::string out =
      "| option | type | default | on resume | meaning |\n| --- | --- | --- | --- | --- |\n";
  append_rows(out, fields, prefix);
  return out + '\n';
}

constexpr auto kResumeLegend =
    "*On resume*: the effect of a changed value on a run that resumes from a checkpoint. *free*: "
    "it "
    "applies; *ask*: it requires `--allow KEY`; *never*: it is incompatible with the saved "
    "state.\n\n";

bool is_path(const std::string& type) {
  return type.ends_with(" path") || type.ends_with(" file") || type.ends_with(" path or a URL");
}

/// `type: mlp` and the required options, as in a recipe.
std::string component_example(const ComponentInfo& info) {
  std::string out = "{type: " + info.name;
  for (const FieldInfo& field : info.fields) {
    if (field.required) out += ", " + field.name + ": " + (is_path(field.type) ? "PATH" : "...");
  }
  return out + '}';
}

/// The recipe section of a component of this kind; %s is the component.
std::string example_of(const std::string& kind, const ComponentInfo& info) {
  static const std::map<std::string, std::pair<std::string, std::string>> places = {
      {"dataset", {"data:\n  train: ", ""}},    {"transform", {"data:\n  transform: [", "]"}},
      {"metric", {"eval:\n  metrics: [", "]"}}, {"callback", {"callbacks: [", "]"}},
      {"tracker", {"trackers: [", "]"}},
  };
  const auto found = places.find(kind);
  const auto& [before, after] =
      found == places.end() ? std::pair<std::string, std::string>(kind + ": ", "") : found->second;
  return "```yaml\n" + before + component_example(info) + after + "\n```\n\n";
}

}  // namespace

std::string reference_page(const CatalogIndex& catalog) {
  std::string title = catalog.kind() + 's';
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  std::string out = kOrigin + ("# " + title + "\n\n");
  for (const auto& [name, info] : catalog.items()) {
    out += "- [`" + name + "`](#" + anchor_of(name) + "): " + markdown(info.summary) + '\n';
  }
  out += '\n';
  if (!catalog.items().empty()) out += kResumeLegend;
  for (const auto& [name, info] : catalog.items()) {
    out += "## `" + name + "`\n\n" + markdown(info.summary) + "\n\n";
    out += example_of(catalog.kind(), info);
    out += info.fields.empty() ? "It has no options.\n\n" : table(info.fields);
  }
  out.pop_back();  // one line feed ends the page
  return out;
}

std::string recipe_reference(const std::vector<FieldInfo>& top) {
  std::string out = kOrigin + std::string("# Recipe\n\n");
  out += "Every key a recipe may have. Notes go under keys that start with `x-`.\n\n";
  out += kResumeLegend;
  std::vector<FieldInfo> plain;
  for (const FieldInfo& field : top) {
    FieldInfo alone = field;
    if (field.kind.empty() && !field.fields.empty()) {
      alone.fields.clear();  // it has its own table
      alone.fallback.clear();
    }
    plain.push_back(std::move(alone));
  }
  out += "## Top level\n\n" + table(plain);
  for (const FieldInfo& field : top) {
    if (field.fields.empty() || !field.kind.empty()) continue;
    out += "## `" + field.name + "`\n\n" + markdown(field.help) + "\n\n";
    out += table(field.fields, field.name + '.');
  }
  out.pop_back();
  return out;
}

}  // namespace accel
