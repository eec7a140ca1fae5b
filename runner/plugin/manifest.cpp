#include "runner/plugin/manifest.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "core/api/plugin_abi.h"
#include "core/api/plugin_identity.h"
#include "core/base/json_text.h"
#include "core/base/text.h"
#include "core/recipe/parse.h"

namespace accel {

template <>
struct EnumNames<Change> {
  static constexpr std::pair<Change, const char*> kValues[] = {
      {Change::kFree, "free"}, {Change::kConsent, "consent"}, {Change::kImpossible, "impossible"}};
};

namespace {

Rule<std::string> vendor_name() {
  return {is_vendor_name, "'vendor/name', of lower-case letters, digits, '_', '-' and '.'", ""};
}

Rule<std::string> some_text() {
  return {[](const std::string& text) { return !text.empty(); }, "a text", ""};
}

Rule<std::string> hex_digest() {
  return {[](const std::string& text) {
            return text.size() == 64 &&
                   text.find_first_not_of("0123456789abcdef") == std::string::npos;
          },
          "64 hexadecimal digits", ""};
}

/// Limited to the size of a recipe by parse_recipe().
std::string text_of(const std::string& path, const std::string& hint) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(ExitCode::kRecipe, accel::text("cannot read the manifest '{}'", path), hint);
  }
  std::string text(kMaxRecipeBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

template <class T>
T read_toml(const std::string& path, const std::string& hint) {
  static const Registry no_components;
  const Node tree = parse_recipe(path, text_of(path, hint));
  Diagnostics problems;
  Reading reading{problems, no_components};
  T out = T::schema().read(tree, reading);
  problems.check();
  return out;
}

/// Strings are written as JSON, a subset of TOML's for these values.
std::string toml_text(const Scalar& scalar) {
  const std::string& text = scalar.text;
  const bool bare = text == "true" || text == "false" ||
                    text.find_first_not_of("0123456789") == std::string::npos;
  return bare && !scalar.quoted ? text : json_text(text);
}

/// `table` is the dotted name of the section, empty for the root.
void append_toml(std::string& out, const std::string& table, const Node::Map& map) {
  for (const Node::Entry& entry : map) {
    const Scalar* scalar = entry.node.scalar();
    if (!scalar) continue;
    out += entry.key + " = " + toml_text(*scalar) + '\n';
  }
  for (const Node::Entry& entry : map) {
    if (!entry.node.list()) continue;
    const std::string name = table + (table.empty() ? "" : ".") + entry.key;
    for (const Node& item : *entry.node.list()) {
      out += "\n[[" + name + "]]\n";
      append_toml(out, name, *item.map());
    }
  }
}

std::vector<DescribedOption> described(const std::vector<FieldInfo>& fields) {
  std::vector<DescribedOption> out;
  out.reserve(fields.size());
  for (const FieldInfo& f : fields) {
    std::vector<DescribedHint> hints;
    for (const OptionHint& hint : f.hints) hints.push_back({hint.name, hint.value});
    out.push_back({f.name, f.type, f.fallback, f.help, f.rule, f.json, f.kind, f.required, f.change,
                   f.handled, described(f.fields), f.renamed_from, std::move(hints)});
  }
  return out;
}

std::vector<FieldInfo> infos_of(const std::vector<DescribedOption>& options) {
  std::vector<FieldInfo> out;
  out.reserve(options.size());
  for (const DescribedOption& o : options) {
    std::vector<OptionHint> hints;
    for (const DescribedHint& hint : o.hints) hints.push_back({hint.name, hint.value});
    out.push_back({o.name, o.type, o.fallback, o.help, o.rule, o.json, o.kind, o.required, o.change,
                   o.handled, infos_of(o.fields), o.renamed_from, std::move(hints)});
  }
  return out;
}

std::vector<std::string> split_at_spaces(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

/// Omits empty fields and switches that are off, to keep manifests short.
void drop_empty(Node& node) {
  if (Node::List* list = node.list()) {
    for (Node& item : *list) drop_empty(item);
  }
  if (Node::Map* map = node.map()) {
    for (Node::Entry& entry : *map) drop_empty(entry.node);
    std::erase_if(*map, [](const Node::Entry& entry) {
      const Scalar* scalar = entry.node.scalar();
      if (!scalar) return entry.node.list()->empty();
      return scalar->text.empty() || (scalar->text == "false" && !scalar->quoted);
    });
  }
}

template <class Named>
void check_reserved(const Named& named, const Node& node, Reading& reading) {
  if (!is_reserved_vendor(vendor_of(named.name))) return;
  reading.problems.error(node.find("name")->node.where, kReservedVendor, kReservedVendorHint);
}

}  // namespace

bool is_reserved_vendor(const std::string& vendor) {
  return vendor == "accel";
}

Schema<PluginSource> PluginSource::schema() {
  return Schema<PluginSource>()
      .field("name", &PluginSource::name, "Vendor and name, as 'acme/rms_mlp'.", vendor_name())
      .required()
      .field("version", &PluginSource::version, "Version of the plugin.", some_text())
      .required()
      .field("licence", &PluginSource::licence, "Licence, such as 'MIT'.", some_text())
      .required()
      .field("api", &PluginSource::api, "Plugin API version of the source.",
             one_of<int64_t>({kPluginApi}))
      .required()
      .field("sources", &PluginSource::sources, "C++ source files.")
      .required()
      .check(&check_reserved<PluginSource>);
}

Schema<DescribedOption> DescribedOption::schema() {
  return Schema<DescribedOption>()
      .field("name", &DescribedOption::name, "As FieldInfo.")
      .required()
      .field("type", &DescribedOption::type, "As FieldInfo.")
      .field("fallback", &DescribedOption::fallback, "As FieldInfo.")
      .field("help", &DescribedOption::help, "As FieldInfo.")
      .field("rule", &DescribedOption::rule, "As FieldInfo.")
      .field("json", &DescribedOption::json, "As FieldInfo.")
      .field("kind", &DescribedOption::kind, "As FieldInfo.")
      .field("required", &DescribedOption::required, "As FieldInfo.")
      .field("change", &DescribedOption::change, "As FieldInfo.")
      .field("handled", &DescribedOption::handled, "As FieldInfo.")
      .field("fields", &DescribedOption::fields, "As FieldInfo.")
      .field("renamed_from", &DescribedOption::renamed_from, "As FieldInfo.")
      .field("hints", &DescribedOption::hints, "As FieldInfo.");
}

Schema<DescribedHint> DescribedHint::schema() {
  return Schema<DescribedHint>()
      .field("name", &DescribedHint::name, "As OptionHint.")
      .required()
      .field("value", &DescribedHint::value, "As OptionHint.");
}

Schema<DescribedComponent> DescribedComponent::schema() {
  return Schema<DescribedComponent>()
      .field("kind", &DescribedComponent::kind, "Its kind: 'model'.", some_text())
      .required()
      .field("name", &DescribedComponent::name, "Its name.", vendor_name())
      .required()
      .field("summary", &DescribedComponent::summary, "One sentence.")
      .field("options", &DescribedComponent::options, "Its options.")
      .field("renamed_from", &DescribedComponent::renamed_from, "Its deprecated name.")
      .field("hint_for", &DescribedComponent::hint_for, "Names that others have for it.");
}

Schema<PluginManifest> PluginManifest::schema() {
  return Schema<PluginManifest>()
      .field("name", &PluginManifest::name, "As in plugin.toml.", vendor_name())
      .required()
      .field("version", &PluginManifest::version, "As in plugin.toml.", some_text())
      .required()
      .field("licence", &PluginManifest::licence, "As in plugin.toml.", some_text())
      .required()
      .field("api", &PluginManifest::api, "As in plugin.toml.")
      .required()
      .field("sha256", &PluginManifest::sha256, "SHA-256 of the plugin's file.", hex_digest())
      .required()
      .field("components", &PluginManifest::components, "Components of the plugin.")
      .check(&check_reserved<PluginManifest>);
}

PluginSource read_plugin_source(const std::string& path) {
  return read_toml<PluginSource>(path, "'accel-run plugin new' writes one");
}

PluginManifest read_plugin_manifest(const std::string& path) {
  return read_toml<PluginManifest>(path, "'accel-run plugin build' writes it");
}

std::string write_plugin_manifest(const PluginManifest& manifest) {
  Node tree = PluginManifest::schema().write(manifest);
  drop_empty(tree);
  std::string out =
      "# Components of the plugin next to this file; written by 'accel-run plugin build'.\n";
  append_toml(out, "", *tree.map());
  return out;
}

std::vector<DescribedComponent> describe_components(const Registry& registry) {
  std::vector<DescribedComponent> out;
  for (const CatalogIndex* catalog : registry.all()) {
    for (const auto& [name, info] : catalog->items()) {
      out.push_back({catalog->kind(), name, info.summary, described(info.fields), info.renamed_from,
                     joined(info.hint_for, " ")});
    }
  }
  return out;
}

ComponentInfo info_of(const DescribedComponent& component) {
  return {component.name, component.summary, infos_of(component.options), component.renamed_from,
          split_at_spaces(component.hint_for)};
}

}  // namespace accel
