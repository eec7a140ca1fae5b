#include "runner/plugin/build.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "runner/formats/mapped_file.h"
#include "runner/formats/sha256.h"
#include "runner/plugin/plugin_file.h"
#include "runner/plugin/plugin_set.h"
#include "runner/plugin/scaffold.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// Runs a command and waits for it; its exit code, or 128 and the signal that ended it.
int run_command(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, argv[0], nullptr, nullptr, argv.data(), environ);
  if (failed != 0) {
    throw Error(ExitCode::kRecipe,
                "cannot start the compiler '" + words[0] + "': " + std::strerror(failed),
                "name another one in the variable CXX");
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void write_whole_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw IoError("cannot write '" + path + "'");
}

void move_file(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) throw IoError("cannot write '" + to + "': " + error.message());
}

std::string source_path(const std::string& folder) {
  return (fs::path(folder) / "plugin.toml").string();
}

void check_sources(const PluginSource& source, const std::string& folder) {
  if (source.sources.empty()) {
    throw Error(ExitCode::kRecipe, "'" + source_path(folder) + "' names no source",
                "write sources = [\"NAME.cpp\"]");
  }
  for (const std::string& name : source.sources) {
    const std::string path = (fs::path(folder) / name).string();
    if (fs::is_regular_file(path)) continue;
    throw Error(ExitCode::kRecipe, "there is no source '" + path + "'",
                "correct 'sources' in '" + source_path(folder) + "'");
  }
}

/// Loads `file`, which will be known as `path`, and tells what is in it.
PluginManifest manifest_for(const PluginSource& source, const std::string& file) {
  PluginManifest manifest{source.name, source.version, source.licence, source.api, {}, {}};
  manifest.components = load_and_describe(file);
  for (const DescribedComponent& component : manifest.components) {
    if (vendor_of(component.name) == vendor_of(source.name)) continue;
    throw Error(ExitCode::kRecipe,
                "the " + component.kind + " '" + component.name + "' is in the plugin '" +
                    source.name + "', which is of another vendor",
                "name it '" + vendor_of(source.name) + "/...'");
  }
  manifest.sha256 = sha256_of(map_file(file).view);
  return manifest;
}

}  // namespace

PluginTools find_plugin_tools(const std::string& bin, const std::optional<std::string>& compiler) {
  for (const fs::path& root : {fs::path(bin), fs::path(bin).parent_path()}) {
    const fs::path sdk = root / "include" / "accel", torch = root / "include" / "accel-torch";
    if (!fs::exists(sdk / "plugin_entry.cpp")) continue;
    PluginTools tools{compiler.value_or(""), sdk.string(), {}};
    if (tools.compiler.empty()) tools.compiler = ACCEL_COMPILER;
    if (fs::exists(torch)) {
      tools.includes = {torch.string(), (torch / "torch/csrc/api/include").string()};
    }
    return tools;
  }
  throw Error(ExitCode::kRecipe, "accel-run's headers are not in '" + bin + "' or above it",
              "install accel-run anew, with its 'include' folder");
}

std::vector<std::string> compile_command(const PluginTools& tools, const PluginSource& source,
                                         const std::string& folder, const std::string& output) {
  std::vector<std::string> words = {tools.compiler, "-std=c++20", "-O2",   "-DNDEBUG",
                                    "-fPIC",        "-shared",    "-Wall", "-fvisibility=hidden",
                                    "-I",           tools.sdk};
  for (const std::string& include : tools.includes) {
    words.insert(words.end(), {"-isystem", include});
  }
  for (const std::string& name : source.sources)
    words.push_back((fs::path(folder) / name).string());
  words.insert(words.end(), {tools.sdk + "/plugin_entry.cpp", "-o", output});
  return words;
}

BuiltPlugin build_plugin(const std::string& folder, const PluginTools& tools) {
  const PluginSource source = read_plugin_source(source_path(folder));
  check_sources(source, folder);
  const std::string name = identifier_of(source.name) + ".so";
  BuiltPlugin built{(fs::path(folder) / name).lexically_normal().string(), {}};
  const std::string fresh = built.path + ".new";
  const int code = run_command(compile_command(tools, source, folder, fresh));
  if (code != 0) {
    throw Error(ExitCode::kRecipe,
                "the compiler ended with " + std::to_string(code) + ": no plugin was built",
                "correct what it names above");
  }
  try {
    built.manifest = manifest_for(source, fresh);
  } catch (const std::exception&) {
    std::error_code ignored;
    fs::remove(fresh, ignored);
    throw;
  }
  write_whole_file(manifest_path(fresh), write_plugin_manifest(built.manifest));
  move_file(fresh, built.path);
  move_file(manifest_path(fresh), manifest_path(built.path));
  return built;
}

BuiltPlugin describe_plugin(const std::string& path, const std::string& source) {
  BuiltPlugin built{path, manifest_for(read_plugin_source(source), path)};
  const std::string fresh = manifest_path(path) + ".new";
  write_whole_file(fresh, write_plugin_manifest(built.manifest));
  move_file(fresh, manifest_path(path));
  return built;
}

}  // namespace accel
