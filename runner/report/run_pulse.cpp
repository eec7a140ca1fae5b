#include "runner/report/run_pulse.h"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <ctime>
#include <fstream>
#include <optional>
#include <sstream>

namespace accel {
namespace {

/// The first word of a file that the system makes.
std::string first_word(const std::string& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

std::string this_host() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

/// When a process of this machine started, in seconds of the machine's clock.
std::optional<double> start_of(long pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t name_end = text.rfind(')');  // a program's name may hold anything
  const std::string uptime = first_word("/proc/uptime");
  if (name_end == text.npos || uptime.empty()) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  constexpr int kStartTime = 20;  // of those behind the name
  for (int i = 0; i < kStartTime; ++i) fields >> field;
  double ticks = 0, up = 0;
  std::from_chars(field.data(), field.data() + field.size(), ticks);
  std::from_chars(uptime.data(), uptime.data() + uptime.size(), up);
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) - up +
         ticks / static_cast<double>(std::max(1L, ::sysconf(_SC_CLK_TCK)));
}

}  // namespace

RunPulse run_pulse(const std::string& run_dir, std::string& holder) {
  const std::string path = run_dir + "/run.lock";
  struct stat facts = {};
  holder.clear();
  if (::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return RunPulse::kNobody;
  std::ifstream in(path);
  std::string key, boot;
  std::getline(in, holder);
  in >> key >> boot;
  long pid = 0;
  constexpr std::string_view kProcess = "process ";
  if (!holder.starts_with(kProcess)) return RunPulse::kNobody;
  std::from_chars(holder.data() + kProcess.size(), holder.data() + holder.size(), pid);
  const bool here = holder.ends_with("'" + this_host() + "'");
  const std::string this_boot = first_word("/proc/sys/kernel/random/boot_id");
  if (!here && boot != this_boot) return RunPulse::kElsewhere;
  if (boot != this_boot) return RunPulse::kSilent;  // the machine has been restarted
  const std::optional<double> started = start_of(pid);
  if (!started) return here ? RunPulse::kSilent : RunPulse::kElsewhere;
  // The number may be another process's by now: that one started after the lock was written.
  constexpr double kClockError = 5;
  const bool later = *started > static_cast<double>(facts.st_mtime) + kClockError;
  return later ? RunPulse::kSilent : RunPulse::kAlive;
}

}  // namespace accel
