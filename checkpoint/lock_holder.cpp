#include "checkpoint/lock_holder.h"

#include <unistd.h>

#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

#include "core/base/environment.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr std::string_view kProcess = "process ";
constexpr std::string_view kOnHost = " on host '";

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::string proc_file(pid_t pid, const char* name) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/" + name);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// State, parent and flags of a process in /proc/PID/stat.
struct ProcessStat {
  char state = '\0';
  pid_t parent = 0;
  unsigned flags = 0;
};

std::optional<ProcessStat> stat_of(pid_t pid) {
  const std::string content = proc_file(pid, "stat");
  const size_t name_end = content.rfind(')');  // the name may have any character
  if (name_end == content.npos) return std::nullopt;
  std::istringstream in(content.substr(name_end + 1));
  ProcessStat out;
  std::string group, session, terminal, terminal_group;
  in >> out.state >> out.parent >> group >> session >> terminal >> terminal_group >> out.flags;
  return in ? std::optional(out) : std::nullopt;
}

bool is_killed(pid_t pid) {
  std::istringstream in(proc_file(pid, "status"));
  for (std::string key, value; in >> key;) {
    if (key != "SigPnd:" && key != "ShdPnd:") continue;
    in >> value;
    uint64_t pending = 0;
    constexpr int kHex = 16;
    std::from_chars(value.data(), value.data() + value.size(), pending, kHex);
    if (pending >> (SIGKILL - 1) & 1) return true;
  }
  return false;
}

bool has_ended(const ProcessStat& stat) {
  constexpr unsigned kExiting = 4;  // PF_EXITING of the kernel
  return stat.state == 'Z' || stat.state == 'X' || (stat.flags & kExiting) != 0;
}

bool is_process_ending(pid_t pid) {
  const std::optional<ProcessStat> stat = stat_of(pid);
  return !stat || has_ended(*stat) || is_killed(pid);
}

/// The children of a process that are not ending.
int64_t children_of(pid_t parent) {
  int64_t count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t pid = 0;
    std::from_chars(name.data(), name.data() + name.size(), pid);
    if (pid == 0) continue;
    const std::optional<ProcessStat> stat = stat_of(pid);
    if (stat && stat->parent == parent && !has_ended(*stat) && !is_killed(pid)) ++count;
  }
  return count;
}

}  // namespace

LockHolder this_holder(int64_t local_ranks) {
  LockHolder holder;
  holder.host = host_name();
  holder.boot = boot_id();
  holder.pid = ::getpid();
  holder.name = text("process {} on host '{}'", holder.pid, holder.host);
  if (local_ranks == 0) return holder;
  holder.launcher = ::getppid();
  holder.local_ranks = local_ranks;
  return holder;
}

std::string to_text(const LockHolder& holder) {
  std::string out = holder.name + "\nboot " + holder.boot + "\n";
  if (holder.launcher != 0) {
    out += "launcher " + std::to_string(holder.launcher) + "\nranks " +
           std::to_string(holder.local_ranks) + "\n";
  }
  return out;
}

LockHolder lock_holder_in(const std::string& text) {
  std::istringstream in(text);
  LockHolder holder;
  std::getline(in, holder.name);
  if (holder.name.starts_with(kProcess)) {
    const char* digits = holder.name.data() + kProcess.size();
    std::from_chars(digits, holder.name.data() + holder.name.size(), holder.pid);
  }
  const size_t host = holder.name.find(kOnHost);
  if (host != holder.name.npos && holder.name.ends_with('\'')) {
    const size_t start = host + kOnHost.size();
    holder.host = holder.name.substr(start, holder.name.size() - 1 - start);
  }
  for (std::string key; in >> key;) {
    if (key == "boot") in >> holder.boot;
    if (key == "launcher") in >> holder.launcher;
    if (key == "ranks") in >> holder.local_ranks;
  }
  return holder;
}

bool is_ending(const LockHolder& holder) {
  if (holder.pid <= 0 || holder.host != host_name() || holder.boot != boot_id()) return false;
  if (is_process_ending(holder.pid)) return true;
  if (holder.launcher <= 0) return false;
  return is_process_ending(holder.launcher) || children_of(holder.launcher) < holder.local_ranks;
}

}  // namespace accel
