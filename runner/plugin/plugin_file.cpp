#include "runner/plugin/plugin_file.h"

#include <accel_sdk.h>

#include <filesystem>
#include <sstream>

#include "core/build_info.h"
#include "core/plugin_abi.h"
#include "runner/formats/code_file.h"
#include "runner/formats/elf.h"
#include "runner/formats/mapped_file.h"
#include "runner/formats/sha256.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& message, const std::string& hint) {
  throw Error(ExitCode::kRecipe, message, hint);
}

std::string named(const std::string& path) {
  return "plugin '" + path + "'";
}

void check_there(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    refuse("there is no " + named(path), "build it: " + build_command(path));
  }
  if (fs::is_directory(status)) {
    refuse(named(path) + " is a folder", "name the file in it that ends in .so");
  }
  if (!fs::is_regular_file(status)) refuse(named(path) + " is no regular file", {});
  check_code_writers(path);
}

ByteSpan abi_section(const std::string& path, ByteSpan bytes) {
  ElfFile file;
  try {
    file = read_elf(bytes);
  } catch (const FormatError& error) {
    refuse(named(path) + " is no shared object: " + error.what(),
           "build it anew: " + build_command(path));
  }
  if (file.machine != elf_machine_here()) {
    refuse(named(path) + " was built for " + elf_machine_name(file.machine) +
               ", and this machine is " + elf_machine_name(elf_machine_here()),
           "build it here: " + build_command(path));
  }
  const ElfSection* section = file.section(kPluginSection);
  if (!section || file.type != kElfShared) {
    refuse("'" + path + "' is no plugin of accel-run: it has no section '" +
               std::string(kPluginSection) + "'",
           "build it with 'accel-run plugin build' or accel_add_plugin()");
  }
  return section->bytes;
}

/// Compares line by line, so that the first difference has a name.
void check_abi(const std::string& path, const std::string& text) {
  std::istringstream theirs(text.substr(0, text.find('\0'))), ours(abi_here());
  std::string their_line, our_line;
  while (std::getline(ours, our_line)) {
    if (!std::getline(theirs, their_line)) their_line.clear();
    if (their_line == our_line) continue;
    const std::string name = our_line.substr(0, our_line.find(": "));
    const std::string wanted = our_line.substr(name.size() + 2);
    const std::string found =
        their_line.starts_with(name + ": ") ? their_line.substr(name.size() + 2) : "none";
    std::string message = named(path);
    message.append(" was built with ").append(name).append(" ").append(found);
    refuse(message.append(", and this accel-run with ").append(wanted),
           "build it anew: " + build_command(path));
  }
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
    refuse(named(path) + " has no manifest '" + beside + "'",
           "write one: accel-run plugin describe " + path);
  }
  check_code_writers(beside);
  PluginManifest manifest = read_plugin_manifest(beside);
  if (sha256_of(map_file(path).view) != manifest.sha256) {
    refuse(named(path) + " is not the file that its manifest was written for",
           "build it anew: " + build_command(path));
  }
  return manifest;
}

}  // namespace accel
