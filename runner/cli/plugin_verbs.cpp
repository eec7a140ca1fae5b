#include "runner/cli/plugin_verbs.h"

#include <chrono>
#include <filesystem>
#include <memory>

#include "core/log.h"
#include "runner/cli/lazy_torch.h"
#include "runner/launch/rank_place.h"
#include "runner/plugin/build.h"
#include "runner/plugin/scaffold.h"

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

/// Installed, in the checkout's build folder, or there under another.
std::string examples_folder() {
  std::error_code error;
  const fs::path bin = folder_of_this();
  for (const fs::path& folder : {bin / "../share/accel-run/plugins", bin / "../../plugins"}) {
    if (fs::is_directory(folder, error)) return folder.lexically_normal().string();
  }
  return {};
}

std::string list_of(const PluginManifest& manifest) {
  std::string text;
  for (const DescribedComponent& component : manifest.components) {
    text += (text.empty() ? "" : ", ") + component.kind + " " + component.name;
  }
  return text;
}

ExitCode new_plugin_verb(const PluginArguments& arguments) {
  const std::string folder =
      arguments.folder.empty() ? identifier_of(arguments.name) : arguments.folder;
  for (const std::string& file : new_plugin(
           examples_folder(), {arguments.kind, arguments.name, folder, this_program().string()})) {
    say("wrote " + file);
  }
  say("build it with: accel-run plugin build " + folder);
  say("and test it with: " + (fs::path(folder) / "test.sh").string() +
      ", by this accel-run or that of ACCEL_RUN");
  return ExitCode::kDone;
}

ExitCode build_plugin_verb(const PluginArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const PluginTools tools =
      find_plugin_tools(folder_of_this().string(), environment_variable("CXX"));
  const BuiltPlugin built = build_plugin(arguments.folder, tools);
  const auto took =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
  say("built " + built.path + " in " + std::to_string(took.count()) +
      " s: " + list_of(built.manifest));
  return ExitCode::kDone;
}

ExitCode describe_plugin_verb(const PluginArguments& arguments) {
  const std::string source = arguments.source.empty()
                                 ? (fs::path(arguments.file).parent_path() / "plugin.toml").string()
                                 : arguments.source;
  const BuiltPlugin built = describe_plugin(fs::absolute(arguments.file).string(), source);
  say("wrote the manifest of " + arguments.file + ": " + list_of(built.manifest));
  return ExitCode::kDone;
}

}  // namespace

void add_plugin_verbs(CLI::App& app, const std::vector<std::string>& argv,
                      std::function<ExitCode()>& verb) {
  const auto to = std::make_shared<PluginArguments>();
  CLI::App& group = *app.add_subcommand("plugin", "write and build components of your own");
  group.require_subcommand(1);
  CLI::App& make = *group.add_subcommand("new", "write a plugin that works, to be changed");
  make.add_option("kind", to->kind, "model, task, dataset, ...")->required();
  make.add_option("name", to->name, "vendor/name")->required();
  make.add_option("folder", to->folder, "the folder to make; default: the name");
  make.callback([to, &verb] { verb = [to] { return new_plugin_verb(*to); }; });
  // Those that load a plugin, which uses libtorch.
  CLI::App& build = *group.add_subcommand("build", "compile a plugin and write its manifest");
  build.add_option("folder", to->folder, "where its plugin.toml is; default: here");
  build.callback([to, &argv, &verb] {
    verb = [to, &argv] {
      require_torch(argv);
      if (to->folder.empty()) to->folder = ".";
      return build_plugin_verb(*to);
    };
  });
  CLI::App& describe =
      *group.add_subcommand("describe", "write the manifest of a plugin that CMake has built");
  describe.add_option("file", to->file, "the plugin's .so")->required();
  describe.add_option("source", to->source, "its plugin.toml; default: beside it");
  describe.callback([to, &argv, &verb] {
    verb = [to, &argv] {
      require_torch(argv);
      return describe_plugin_verb(*to);
    };
  });
}

}  // namespace accel
