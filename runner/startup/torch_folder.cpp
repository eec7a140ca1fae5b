#include "runner/startup/torch_folder.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libtorch_cpu.so";

/// The value of `key` in a file of lines "key = value", without quotes; empty if there is none.
std::string value_in_file(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t equals = line.find('=');
    if (equals == line.npos || trimmed(line.substr(0, equals)) != key) continue;
    std::string value = trimmed(line.substr(equals + 1));
    std::erase_if(value, [](char c) { return c == '\'' || c == '"'; });
    return value;
  }
  return {};
}

/// The package folders of all Pythons in `prefix`; the last is that of `pip install --target`.
std::vector<fs::path> package_folders(const fs::path& prefix) {
  std::vector<fs::path> folders;
  for (const char* library : {"lib", "lib64", "local/lib"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(prefix / library, error)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        folders.push_back(entry.path() / packages);
      }
    }
  }
  std::sort(folders.begin(), folders.end());
  folders.push_back(prefix);
  return folders;
}

/// The prefixes whose packages a Python in `prefix` imports: more than one for a virtual
/// environment that includes the system's.
std::vector<fs::path> prefixes_of(const fs::path& prefix, const EnvironmentLookup& lookup) {
  std::vector<fs::path> prefixes = {prefix};
  const fs::path settings = prefix / "pyvenv.cfg";
  if (ascii_lower(value_in_file(settings, "include-system-site-packages")) != "true") {
    return prefixes;
  }
  const std::optional<std::string> home = lookup("HOME");
  if (home && !home->empty()) prefixes.push_back(fs::path(*home) / ".local");
  const fs::path base = fs::path(value_in_file(settings, "home")).parent_path();
  prefixes.insert(prefixes.end(), {base, base / "local"});
  return prefixes;
}

}  // namespace

std::string minor_version(std::string_view version) {
  const size_t dot = version.find('.');
  const size_t end = dot == version.npos ? version.npos : version.find('.', dot + 1);
  return std::string(version.substr(0, end));
}

std::optional<std::string> find_torch_folder(const fs::path& prefix, std::string_view version,
                                             const EnvironmentLookup& lookup) {
  const fs::path installed = prefix / "lib" / "accel-run";
  std::error_code error;
  if (fs::exists(installed / kLibrary, error)) return installed.string();

  const std::string wanted = minor_version(version);
  std::string other, others_version;
  for (const fs::path& each : prefixes_of(prefix, lookup)) {
    for (const fs::path& packages : package_folders(each)) {
      const fs::path folder = packages / "torch" / "lib";
      if (!fs::exists(folder / kLibrary, error)) continue;
      const std::string found = value_in_file(packages / "torch" / "version.py", "__version__");
      if (minor_version(found) == wanted) return folder.string();
      if (other.empty()) other = folder.string(), others_version = found;
    }
  }
  if (other.empty()) return std::nullopt;
  throw Error(ExitCode::kOther,
              text("libtorch in '{}' is version {}; this accel-run needs {}", other,
                   others_version.empty() ? "unknown" : others_version, wanted),
              text("install it: pip install 'torch=={}.*'", wanted));
}

}  // namespace accel
