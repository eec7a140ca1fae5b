// plugin new, build and describe.
#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>

#include "core/base/build_info.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "parallel/rendezvous/rank_info.h"
#include "runner/cli/cli.h"
#include "runner/cli/load_recipe.h"
#include "runner/plugin/build.h"
#include "runner/startup/torch_folder.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct PluginArguments {
  std::string kind, name, folder, file, source;
};

fs::path this_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

fs::path folder_of_this() {
  return this_program().parent_path();
}

/// The examples of an installation or of the checkout.
std::string examples_folder() {
  std::error_code error;
  const fs::path bin = folder_of_this();
  for (const fs::path& folder : {bin / "../share/accel-run/plugins", bin / "../../plugins"}) {
    if (fs::is_directory(folder, error)) return folder.lexically_normal().string();
  }
  return {};
}

std::string component_list(const PluginManifest& manifest) {
  std::vector<std::string> names;
  for (const DescribedComponent& component : manifest.components) {
    names.push_back(component.kind + " " + component.name);
  }
  return joined(names);
}

ExitCode new_plugin_verb(const PluginArguments& arguments) {
  const std::string folder =
      arguments.folder.empty() ? identifier_of(arguments.name) : arguments.folder;
  for (const std::string& file : new_plugin(
           examples_folder(), {arguments.kind, arguments.name, folder, this_program().string()})) {
    say(text("wrote {}", file));
  }
  for (const CatalogIndex* catalog : components().all()) {
    if (catalog->kind() != arguments.kind || catalog->names().empty()) continue;
    say(text("built-in ones: {}", joined(catalog->names())));
  }
  say(text("build it with: accel-run plugin build {}", folder));
  say(text("test it with: {}, which runs this accel-run or $ACCEL_RUN",
           (fs::path(folder) / "test.sh").string()));
  return ExitCode::kDone;
}

/// The wheel has no headers of libtorch: those of the Python package torch are used.
PluginTools plugin_tools() {
  const fs::path bin = folder_of_this();
  PluginTools tools = find_plugin_tools(bin.string(), environment_variable("CXX"));
  if (!tools.includes.empty()) return tools;
  const auto folder =
      find_torch_folder(bin.parent_path(), build_info().torch, environment_variable);
  if (!folder) return tools;
  const fs::path headers = fs::path(*folder).parent_path() / "include";
  tools.includes = {headers.string(), (headers / "torch/csrc/api/include").string()};
  return tools;
}

ExitCode build_plugin_verb(const PluginArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const PluginTools tools = plugin_tools();
  const BuiltPlugin built = build_plugin(arguments.folder.empty() ? "." : arguments.folder, tools);
  const auto took =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
  say(text("built {} in {} s: {}", built.path, took.count(), component_list(built.manifest)));
  return ExitCode::kDone;
}

ExitCode describe_plugin_verb(const PluginArguments& arguments) {
  const std::string source = arguments.source.empty()
                                 ? (fs::path(arguments.file).parent_path() / "plugin.toml").string()
                                 : arguments.source;
  const BuiltPlugin built = describe_plugin(fs::absolute(arguments.file).string(), source);
  say(text("wrote the manifest of {}: {}", arguments.file, component_list(built.manifest)));
  return ExitCode::kDone;
}

}  // namespace

void add_plugin_verbs(VerbTable& verbs) {
  const auto to = std::make_shared<PluginArguments>();
  CLI::App& group = verbs.add_group("plugin", "write and build plugins");
  CLI::App& make = verbs.add(group, "new", "write an example plugin to start from",
                             [to] { return new_plugin_verb(*to); });
  make.add_option("kind", to->kind, "model, task, dataset, ...")->required();
  make.add_option("name", to->name, "vendor/name")->required();
  make.add_option("folder", to->folder, "the folder to create; default: the name");
  // The others load a plugin, which uses libtorch.
  CLI::App& build = verbs.add(group, "build", "compile a plugin and write its manifest",
                              verbs.with_torch([to] { return build_plugin_verb(*to); }));
  build.add_option("folder", to->folder, "the folder with its plugin.toml; default: '.'");
  CLI::App& describe =
      verbs.add(group, "describe", "write the manifest of a plugin that CMake has built",
                verbs.with_torch([to] { return describe_plugin_verb(*to); }));
  describe.add_option("file", to->file, "the plugin's .so")->required();
  describe.add_option("source", to->source, "its plugin.toml; default: in the folder of the .so");
}

}  // namespace accel
