#include "runner/plugin/build.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/digest.h"
#include "core/base/files.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/recipe/diagnostic.h"
#include "runner/plugin/manifest.h"
#include "runner/plugin/plugin_set.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// The default program in the examples' test.sh.
constexpr auto kTestProgram = ":-accel-run}";

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

/// Replaces the example's names in a text or file name.
std::string renamed(std::string text, const std::string& from, const std::string& to) {
  replace_all(text, from, to);
  replace_all(text, class_name_of(from), class_name_of(to));
  replace_all(text, identifier_of(from), identifier_of(to));
  return text;
}

/// Within "${NAME:-...}" of a shell.
std::string shell_default(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\\"$`}").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

void check_name(const std::string& name) {
  const std::string word = identifier_of(name);
  if (is_reserved_vendor(vendor_of(name))) {
    throw Error(ExitCode::kRecipe,
                accel::text("'{}' is not a valid plugin name: {}", name, kReservedVendor),
                kReservedVendorHint);
  }
  if (is_vendor_name(name) && !std::isdigit(static_cast<unsigned char>(word[0]))) return;
  throw Error(ExitCode::kRecipe, accel::text("'{}' is not a valid plugin name", name),
              "write 'vendor/name', of lower-case letters, digits, '_', '-' and '.', with a letter "
              "after the '/'");
}

/// Runs a command; its exit code, or 128 plus the signal.
int run_command(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, argv[0], nullptr, nullptr, argv.data(), environ);
  if (failed != 0) {
    throw Error(ExitCode::kRecipe,
                text("cannot start the compiler '{}': {}", words[0], std::strerror(failed)),
                "set CXX to another compiler");
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string source_path(const std::string& folder) {
  return (fs::path(folder) / "plugin.toml").string();
}

void check_sources(const PluginSource& source, const std::string& folder) {
  for (const std::string& name : source.sources) {
    const std::string path = (fs::path(folder) / name).string();
    if (fs::is_regular_file(path)) continue;
    throw Error(ExitCode::kRecipe, text("there is no source '{}'", path),
                text("correct 'sources' in '{}'", source_path(folder)));
  }
}

/// Loads `file`, to be published as `path`, and describes its components.
PluginManifest manifest_for(const PluginSource& source, const std::string& file) {
  PluginManifest manifest{source.name, source.version, source.licence, source.api, {}, {}};
  manifest.components = load_and_describe(file);
  for (const DescribedComponent& component : manifest.components) {
    if (vendor_of(component.name) == vendor_of(source.name)) continue;
    throw Error(ExitCode::kRecipe,
                text("the {} '{}' is in the plugin '{}' of another vendor", component.kind,
                     component.name, source.name),
                text("name it '{}/...'", vendor_of(source.name)));
  }
  manifest.sha256 = digest_of(Digest::Kind::kSha256, as_text(map_file(file).view));
  return manifest;
}

}  // namespace

std::string identifier_of(const std::string& name) {
  std::string word = name.substr(name.find('/') + 1);
  std::replace_if(
      word.begin(), word.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return word;
}

std::string class_name_of(const std::string& name) {
  std::string out;
  bool start = true;
  for (const char c : identifier_of(name)) {
    if (c != '_') out += start ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    start = c == '_';
  }
  return out;
}

std::vector<std::string> example_kinds(const std::string& examples) {
  std::vector<std::string> kinds;
  std::error_code error;
  for (fs::directory_iterator it(examples, error), end; !error && it != end; it.increment(error)) {
    if (fs::exists(it->path() / "plugin.toml")) kinds.push_back(it->path().filename().string());
  }
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

std::vector<std::string> new_plugin(const std::string& examples, const NewPlugin& wanted) {
  const auto& [kind, name, folder, program] = wanted;
  const std::vector<std::string> kinds = example_kinds(examples);
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    std::string hint = did_you_mean(kind, kinds);
    for (const std::string& each : kinds) {
      if (!hint.starts_with("did")) hint += (hint.empty() ? "there are " : ", ") + each;
    }
    throw Error(ExitCode::kRecipe, accel::text("there is no example plugin of kind '{}'", kind),
                hint);
  }
  check_name(name);
  if (fs::exists(folder)) {
    throw Error(ExitCode::kRecipe, accel::text("'{}' already exists", folder),
                "give another folder; nothing is overwritten");
  }
  const fs::path example = fs::path(examples) / kind;
  const std::string old = read_plugin_source((example / "plugin.toml").string()).name;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw IoError(accel::text("cannot create '{}': {}", folder, error.message()));
  std::vector<std::string> files;
  for (const char* ending : {".cpp", ".toml", ".yaml", ".sh", ".jsonl", ".json"}) {
    for (const auto& entry : fs::directory_iterator(example)) {
      const fs::path& from = entry.path();
      if (from.extension() != ending || from.filename().string().ends_with(".so.toml")) continue;
      const fs::path to = fs::path(folder) / renamed(from.filename().string(), old, name);
      std::ofstream out(to, std::ios::binary);
      std::string text = renamed(text_of(from), old, name);
      replace_all(text, kTestProgram, ":-" + shell_default(program) + "}");
      out << text;
      out.close();
      if (!out) throw IoError(accel::text("cannot write '{}'", to.string()));
      fs::permissions(to, fs::status(from).permissions() & ~(fs::perms::others_write), error);
      files.push_back(to.string());
    }
  }
  return files;
}

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
  throw Error(ExitCode::kRecipe, text("accel-run's headers are not in '{}' or above it", bin),
              "reinstall accel-run with its 'include' folder");
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
    throw Error(ExitCode::kRecipe, text("the compiler exited with {}: no plugin was built", code),
                "correct the errors above");
  }
  try {
    built.manifest = manifest_for(source, fresh);
  } catch (const std::exception&) {
    std::error_code ignored;
    fs::remove(fresh, ignored);
    throw;
  }
  publish_file(fresh, built.path);
  write_file_atomically(manifest_path(built.path), write_plugin_manifest(built.manifest));
  return built;
}

BuiltPlugin describe_plugin(const std::string& path, const std::string& source) {
  BuiltPlugin built{path, manifest_for(read_plugin_source(source), path)};
  write_file_atomically(manifest_path(path), write_plugin_manifest(built.manifest));
  return built;
}

}  // namespace accel
