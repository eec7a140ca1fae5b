#include "core/base/hub_cache.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCommitDigits = 40;

/// The variable if it is an absolute path, else "".
std::string absolute_value(const EnvironmentLookup& environment, const char* name) {
  const std::string value = environment(name).value_or("");
  return value.starts_with('/') ? value : std::string();
}

bool leads_out(std::string_view name) {
  return name.empty() || name.starts_with('/') || name.find("..") != name.npos;
}

}  // namespace

std::string hub_home_folder(const EnvironmentLookup& environment) {
  if (const std::string home = absolute_value(environment, "HF_HOME"); !home.empty()) return home;
  const std::string cache = absolute_value(environment, "XDG_CACHE_HOME");
  if (!cache.empty()) return cache + "/huggingface";
  const std::string home = absolute_value(environment, "HOME");
  return home.empty() ? "" : home + "/.cache/huggingface";
}

std::string hub_cache_folder(const EnvironmentLookup& environment) {
  const std::string given = absolute_value(environment, "HF_HUB_CACHE");
  if (!given.empty()) return given;
  const std::string home = hub_home_folder(environment);
  return home.empty() ? "" : home + "/hub";
}

std::string hub_folder_name(std::string_view repository) {
  std::string out = repository.starts_with(kHubDatasets) ? "" : "models--";
  for (const char c : repository) out += c == '/' ? std::string("--") : std::string(1, c);
  return out;
}

std::optional<std::string> hub_snapshot(std::string_view name,
                                        const EnvironmentLookup& environment) {
  const std::string cache = hub_cache_folder(environment);
  const size_t at = std::min(name.find('@'), name.size());
  const std::string_view repository = name.substr(0, at);
  const std::string revision(at < name.size() ? name.substr(at + 1) : "main");
  if (cache.empty() || leads_out(repository) || leads_out(revision)) return std::nullopt;
  const fs::path folder = fs::path(cache) / hub_folder_name(repository);
  std::string commit;
  std::ifstream reference(folder / "refs" / revision);
  if (reference) reference >> commit;
  if (commit.empty() && revision.size() == kCommitDigits) commit = revision;
  if (commit.empty() || leads_out(commit)) return std::nullopt;
  std::error_code error;
  const fs::path snapshot = folder / "snapshots" / commit;
  return fs::is_directory(snapshot, error) ? std::optional(snapshot.string()) : std::nullopt;
}

std::optional<std::string> hub_snapshot(std::string_view name) {
  return hub_snapshot(name, &environment_variable);
}

}  // namespace accel
