#include <dirent.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include "parallel/rendezvous/rendezvous.h"

namespace accel {
namespace {

/// Names in a folder; empty when it cannot be read.
std::vector<std::string> entries(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), &::closedir);
  std::vector<std::string> names;
  if (!dir) return names;
  while (const dirent* entry = ::readdir(dir.get())) names.emplace_back(entry->d_name);
  return names;
}

/// Inode of the socket that listens at `port`, from /proc/net/tcp or tcp6.
std::optional<std::string> listening_socket(const std::string& table, int64_t port) {
  std::ifstream in(table);
  std::string line;
  std::getline(in, line);  // column titles
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
        timeout >> inode;
    const size_t colon = local.rfind(':');
    if (state != "0A" || colon == std::string::npos) continue;
    int64_t found = -1;
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), found, 16);
    if (found == port) return "socket:[" + inode + "]";
  }
  return std::nullopt;
}

bool holds(const std::string& process, const std::string& socket) {
  const std::string folder = "/proc/" + process + "/fd/";
  for (const std::string& fd : entries(folder)) {
    char target[64] = {};
    const ssize_t length = ::readlink((folder + fd).c_str(), target, sizeof target - 1);
    if (length > 0 && socket == target) return true;
  }
  return false;
}

}  // namespace

std::string port_owner(int64_t port) {
  auto socket = listening_socket("/proc/net/tcp", port);
  if (!socket) socket = listening_socket("/proc/net/tcp6", port);
  if (!socket) return {};
  for (const std::string& process : entries("/proc")) {
    if (process.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!holds(process, *socket)) continue;
    std::string name;
    std::getline(std::ifstream("/proc/" + process + "/comm"), name);
    return "process " + process + " ('" + name + "')";
  }
  return {};
}

}  // namespace accel
