#include "runner/plugin/manifest.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/json_text.h"
#include "core/parse.h"
#include "core/plugin_abi.h"
#include "runner/plugin/reserved_vendor.h"

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

/// No larger than a recipe: parse_recipe() refuses the rest.
std::string text_of(const std::string& path, const std::string& hint) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(ExitCode::kRecipe, "cannot read the manifest '" + path + "'", hint);
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

/// Texts are written as JSON, which TOML's are but for what no text here has.
std::string toml_text(const Scalar& scalar) {
  const std::string& text = scalar.text;
  const bool bare = text == "true" || text == "false" ||
                    text.find_first_not_of("0123456789") == std::string::npos;
  return bare && !scalar.quoted ? text : json_text(text);
}

/// `table` is the dotted name of the section, empty for the whole.
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
    out.push_back({f.name, f.type, f.fallback, f.help, f.rule, f.json, f.kind, f.required, f.change,
                   f.handled, described(f.fields)});
  }
  return out;
}

std::vector<FieldInfo> infos_of(const std::vector<DescribedOption>& options) {
  std::vector<FieldInfo> out;
  out.reserve(options.size());
  for (const DescribedOption& o : options) {
    out.push_back({o.name, o.type, o.fallback, o.help, o.rule, o.json, o.kind, o.required, o.change,
                   o.handled, infos_of(o.fields)});
  }
  return out;
}

/// Leaves out what says nothing, so that a manifest is short enough to be read.
void drop_empty(Node& node) {
  if (Node::List* list = node.list()) {
    for (Node& item : *list) drop_empty(item);
  }
  if (Node::Map* map = node.map()) {
    for (Node::Entry& entry : *map) drop_empty(entry.node);
    std::erase_if(*map, [](const Node::Entry& entry) {
      const Scalar* scalar = entry.node.scalar();
      return scalar ? scalar->text.empty() || scalar->text == "false" : entry.node.list()->empty();
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

bool is_vendor_name(const std::string& name) {
  const auto plain = [](const std::string& part) {
    const auto in_word = [](char c) { return ('a' <= c && c <= 'z') || ('0' <= c && c <= '9'); };
    return !part.empty() && in_word(part[0]) && std::all_of(part.begin(), part.end(), [&](char c) {
      return in_word(c) || c == '_' || c == '-' || c == '.';
    });
  };
  const size_t slash = name.find('/');
  return name.size() <= 64 && slash != name.npos && plain(name.substr(0, slash)) &&
         plain(name.substr(slash + 1));
}

std::string vendor_of(const std::string& name) {
  return name.substr(0, name.find('/'));
}

Schema<PluginSource> PluginSource::schema() {
  return Schema<PluginSource>()
      .field("name", &PluginSource::name, "Vendor and name, as 'acme/rms_mlp'.", vendor_name())
      .required()
      .field("version", &PluginSource::version, "The plugin's own version.", some_text())
      .required()
      .field("licence", &PluginSource::licence, "Under what it may be used, such as 'MIT'.",
             some_text())
      .required()
      .field("api", &PluginSource::api, "The plugin API that the source is written for.",
             one_of<int64_t>({kPluginApi}))
      .required()
      .field("sources", &PluginSource::sources, "The C++ files that it is made of.")
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
      .field("fields", &DescribedOption::fields, "As FieldInfo.");
}

Schema<DescribedComponent> DescribedComponent::schema() {
  return Schema<DescribedComponent>()
      .field("kind", &DescribedComponent::kind, "Its kind: 'model'.", some_text())
      .required()
      .field("name", &DescribedComponent::name, "Its name.", vendor_name())
      .required()
      .field("summary", &DescribedComponent::summary, "One sentence.")
      .field("options", &DescribedComponent::options, "Its options.");
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
      .field("sha256", &PluginManifest::sha256, "Of the plugin's file.", hex_digest())
      .required()
      .field("components", &PluginManifest::components, "What is in it.")
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
      "# What is in the plugin beside this file; written by 'accel-run plugin build'.\n";
  append_toml(out, "", *tree.map());
  return out;
}

std::vector<DescribedComponent> describe_components(const Registry& registry) {
  std::vector<DescribedComponent> out;
  for (const CatalogIndex* catalog : registry.all()) {
    for (const auto& [name, info] : catalog->items()) {
      out.push_back({catalog->kind(), name, info.summary, described(info.fields)});
    }
  }
  return out;
}

ComponentInfo info_of(const DescribedComponent& component) {
  return {component.name, component.summary, infos_of(component.options)};
}

}  // namespace accel
