#include "track/git_state.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBranchPrefix = "refs/heads/";

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// The .git folder above `folder`, or empty. In a linked work tree .git is a file with its path.
fs::path find_git_folder(fs::path folder) {
  std::error_code error;
  folder = fs::absolute(folder, error);
  while (!fs::exists(folder / ".git", error)) {
    if (folder == folder.parent_path()) return {};
    folder = folder.parent_path();
  }
  const fs::path git = folder / ".git";
  if (fs::is_directory(git, error)) return git;
  constexpr std::string_view kPointer = "gitdir: ";
  const std::string line = first_line(git);
  return line.starts_with(kPointer) ? folder / line.substr(kPointer.size()) : fs::path();
}

/// Branches and settings: a linked work tree uses those of the main one.
fs::path shared_folder(const fs::path& git) {
  const std::string shared = first_line(git / "commondir");
  return shared.empty() ? git : git / shared;
}

std::string commit_of(const fs::path& shared, const std::string& reference) {
  const std::string loose = first_line(shared / reference);
  if (!loose.empty()) return loose;
  std::ifstream packed(shared / "packed-refs");
  for (std::string line; std::getline(packed, line);) {
    if (line.ends_with(" " + reference)) return line.substr(0, line.find(' '));
  }
  return "";
}

/// "https://example.com/x" of "https://user:key@example.com/x"; "git@example.com:x" stays.
std::string without_credentials(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) return url;
  const size_t host = scheme + 3;
  const size_t path = std::min(url.find('/', host), url.size());
  const size_t at = url.rfind('@', path);
  if (at == std::string::npos || at < host) return url;
  return url.substr(0, host) + url.substr(at + 1);
}

/// URL of the remote "origin".
std::string origin_of(const fs::path& shared) {
  std::ifstream in(shared / "config");
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    const size_t start = line.find_first_not_of(" \t");
    if (start == std::string::npos) continue;
    line.erase(0, start);
    if (line.front() == '[') inside = line.starts_with("[remote \"origin\"]");
    const size_t equals = line.find('=');
    if (!inside || !line.starts_with("url") || equals == std::string::npos) continue;
    const size_t value = line.find_first_not_of(" \t", equals + 1);
    return value == std::string::npos ? "" : without_credentials(line.substr(value));
  }
  return "";
}

}  // namespace

GitState git_state(const fs::path& folder) {
  GitState state;
  const fs::path git = find_git_folder(folder);
  if (git.empty()) return state;
  const fs::path shared = shared_folder(git);
  state.remote = origin_of(shared);
  const std::string head = first_line(git / "HEAD");
  constexpr std::string_view kReference = "ref: ";
  if (!head.starts_with(kReference)) {
    state.commit = head;
    return state;
  }
  const std::string reference = head.substr(kReference.size());
  if (reference.starts_with(kBranchPrefix)) state.branch = reference.substr(kBranchPrefix.size());
  state.commit = commit_of(shared, reference);
  return state;
}

}  // namespace accel
