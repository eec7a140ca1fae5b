#include "runner/plugin/plugin_set.h"

#include <cxxabi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <sstream>
#include <stdexcept>

#include <accel_sdk.h>

#include "core/api/plugin_abi.h"
#include "core/base/build_info.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/shared_library.h"
#include "core/base/text.h"
#include "formats/program/code_file.h"
#include "formats/program/elf.h"
#include "runner/startup/process_setup.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& message, const std::string& hint) {
  throw Error(ExitCode::kRecipe, message, hint);
}

std::string rebuild_hint(const std::string& path) {
  return text("rebuild it: {}", build_command(path));
}

void check_there(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    refuse(text("there is no plugin '{}'", path), text("build it: {}", build_command(path)));
  }
  if (fs::is_directory(status)) {
    refuse(text("plugin '{}' is a folder", path), "name the file in it that ends in .so");
  }
  if (!fs::is_regular_file(status)) {
    refuse(text("plugin '{}' is not a regular file", path), "name a file that ends in .so");
  }
  check_code_writers(path);
}

ByteSpan abi_section(const std::string& path, ByteSpan bytes) {
  ElfFile file;
  try {
    file = read_elf(bytes);
  } catch (const FormatError& error) {
    refuse(text("plugin '{}' is not a shared object: {}", path, error.what()), rebuild_hint(path));
  }
  if (file.machine != elf_machine_here()) {
    refuse(text("plugin '{}' was built for {}, and this machine is {}", path,
                elf_machine_name(file.machine), elf_machine_name(elf_machine_here())),
           text("build it here: {}", build_command(path)));
  }
  const ElfSection* section = file.section(kPluginSection);
  if (!section || file.type != kElfShared) {
    refuse(text("'{}' is not a plugin of accel-run: it has no section '{}'", path, kPluginSection),
           "build it with 'accel-run plugin build' or accel_add_plugin()");
  }
  return section->bytes;
}

/// Compares line by line, to name the first difference.
void check_abi(const std::string& path, const std::string& abi) {
  std::istringstream theirs(abi.substr(0, abi.find('\0'))), ours(abi_here());
  std::string their_line, our_line;
  while (std::getline(ours, our_line)) {
    if (!std::getline(theirs, their_line)) their_line.clear();
    if (their_line == our_line) continue;
    const std::string name = our_line.substr(0, our_line.find(": "));
    const std::string wanted = our_line.substr(name.size() + 2);
    const std::string found =
        their_line.starts_with(name + ": ") ? their_line.substr(name.size() + 2) : "none";
    refuse(text("plugin '{}' was built with {} {}, and this accel-run with {}", path, name, found,
                wanted),
           rebuild_hint(path));
  }
}

/// Descriptor for the child's error: a terminate handler takes no argument.
int error_pipe = -1;

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : symbol;
}

/// The loader's error as an Error.
Error loader_error(const std::string& path, const std::string& text) {
  constexpr std::string_view kUndefined = "undefined symbol: ";
  const size_t at = text.find(kUndefined);
  if (at == text.npos) {
    return Error(ExitCode::kRecipe, accel::text("cannot load plugin '{}': {}", path, text));
  }
  const size_t begin = at + kUndefined.size();
  const std::string symbol = text.substr(begin, text.find_first_of(" \t(", begin) - begin);
  return Error(ExitCode::kRecipe,
               accel::text("plugin '{}' needs '{}', which neither accel-run nor libtorch has", path,
                           demangled(symbol)),
               "define it in one of the plugin's sources");
}

void load(const std::string& path, Registry& registry) {
  // dlopen() would search for a bare name.
  const std::string whole = std::filesystem::absolute(path).string();
  keep_static_destructors();
  SharedLibrary plugin(whole);
  if (!plugin) throw loader_error(path, plugin.error());
  void (*enter)(Registry&) = nullptr;
  if (!plugin.find(kPluginEntry, enter)) {
    refuse(text("plugin '{}' does not export '{}'", path, kPluginEntry),
           "build it with 'accel-run plugin build' or accel_add_plugin()");
  }
  try {
    enter(registry);
  } catch (const std::logic_error& error) {  // of a name missing in its manifest
    refuse(text("plugin '{}' cannot be entered: {}", path, error.what()),
           text("describe it again: accel-run plugin describe {}", path));
  }
}

std::string threw(const char* message) {
  return text("threw while it was loaded: {}", message);
}

[[noreturn]] void end_child(const std::string& refusal) {
  (void)!write(error_pipe, refusal.data(), refusal.size());
  _exit(refusal.empty() ? 0 : 1);
}

/// Ends the child with the current exception; also its terminate handler, for an exception that
/// does not get through the loader.
[[noreturn]] void report_exception() {
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const std::exception& error) {
    end_child(threw(error.what()));
  } catch (...) {
    end_child(threw("an unknown exception"));
  }
}

[[noreturn]] void try_in_child(const std::string& path) {
  std::set_terminate(&report_exception);
  try {
    Registry scratch;
    load(path, scratch);
  } catch (const Error&) {
    end_child({});  // the parent reports the same error
  } catch (...) {
    report_exception();
  }
  end_child({});
}

std::string read_all(int descriptor) {
  std::string text;
  char buffer[512];
  for (;;) {
    const ssize_t count = read(descriptor, buffer, sizeof buffer);
    if (count > 0 && text.size() < 4096) text.append(buffer, static_cast<size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) return text;
  }
}

/// The error of the plugin's initialisers; "" for none.
std::string refusal_of(const std::string& path) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    error_pipe = ends[1];
    try_in_child(path);
  }
  close(ends[1]);
  std::string refusal = child > 0 ? read_all(ends[0]) : std::string();
  close(ends[0]);
  if (child < 0) return {};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!refusal.empty()) return refusal;
  if (WIFSIGNALED(status)) {
    return text("ended the process by signal {} while it was loaded", WTERMSIG(status));
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? ""
                                                       : "ended the process while it was loaded";
}

/// Loads the plugin at `path` and enters its components into `registry`. A child process does so
/// first, so that an initialiser that throws or crashes ends only the child. A process loads a path
/// once and does not see a later build of it. Throws Error (recipe).
void enter_plugin(const std::string& path, Registry& registry) {
  const std::string refusal = refusal_of(path);
  if (!refusal.empty()) {
    refuse(text("plugin '{}' {}", path, refusal),
           "move code that can fail into the constructors of its components");
  }
  load(path, registry);
}

/// Checks that a component's name begins with the vendor.
void check_vendor(const std::string& path, const std::string& kind, const std::string& name,
                  const std::string& vendor) {
  if (is_vendor_name(name) && (vendor.empty() || vendor_of(name) == vendor)) return;
  refuse(text("plugin '{}' registers the {} '{}', which is not named '{}/...'", path, kind, name,
              vendor.empty() ? "vendor" : vendor),
         "give it another kName");
}

}  // namespace

std::string manifest_path(const std::string& plugin) {
  return plugin + ".toml";
}

std::string build_command(const std::string& plugin) {
  const std::string folder = fs::path(plugin).parent_path().string();
  return "accel-run plugin build " + (folder.empty() ? "." : folder);
}

std::string abi_here() {
  const PluginAbi abi = plugin_abi(kSdkDigest, build_info().torch);
  return std::string(abi.text, abi.size);
}

void check_plugin_file(const std::string& path) {
  check_there(path);
  const SharedBytes file = map_file(path);
  check_abi(path, std::string(as_text(abi_section(path, file.view))));
}

PluginManifest inspect_plugin(const std::string& path) {
  check_plugin_file(path);
  const std::string beside = manifest_path(path);
  std::error_code error;
  if (!fs::is_regular_file(beside, error)) {
    refuse(text("plugin '{}' has no manifest '{}'", path, beside),
           text("write one: accel-run plugin describe {}", path));
  }
  check_code_writers(beside);
  PluginManifest manifest = read_plugin_manifest(beside);
  if (digest_of(Digest::Kind::kSha256, as_text(map_file(path).view)) != manifest.sha256) {
    refuse(text("plugin '{}' does not match its manifest", path), rebuild_hint(path));
  }
  return manifest;
}

void PluginSet::check_names(const std::string& path, const PluginManifest& manifest) {
  for (const auto& known : identities_) {
    if (known.name != manifest.name) continue;
    refuse(text("plugin '{}' has the same name '{}' as another plugin", path, manifest.name),
           "leave one of the two out");
  }
  for (const DescribedComponent& component : manifest.components) {
    check_vendor(path, component.kind, component.name, vendor_of(manifest.name));
    const std::string named = text("{} '{}'", component.kind, component.name);
    const auto [owner, entered] = owners_.emplace(named, text("plugin '{}'", path));
    std::string other = entered ? "" : owner->second;
    for (const CatalogIndex* catalog : registry_.all()) {
      if (other.empty() && catalog->kind() == component.kind &&
          catalog->items().contains(component.name)) {
        other = "accel-run itself";
      }
    }
    if (other.empty()) continue;
    refuse(text("plugin '{}' registers the {}, which {} also registers", path, named, other),
           "leave one of the two out, or rename the component");
  }
}

void PluginSet::add(const std::string& path) {
  const PluginManifest manifest = inspect_plugin(path);
  check_names(path, manifest);
  if (!describe_) enter_plugin(path, registry_);
  for (const DescribedComponent& component : manifest.components) {
    if (describe_) describe_(component, registry_);
  }
  identities_.push_back({manifest.name, manifest.version, manifest.sha256});
}

std::vector<DescribedComponent> load_and_describe(const std::string& path) {
  check_plugin_file(path);
  Registry registry;
  enter_plugin(path, registry);
  std::vector<DescribedComponent> components = describe_components(registry);
  if (components.empty()) {
    refuse(text("plugin '{}' registers no component", path),
           "end its source with 'const Register<T> name;'");
  }
  for (const DescribedComponent& component : components) {
    check_vendor(path, component.kind, component.name, {});
  }
  return components;
}

}  // namespace accel
