#include "train/loop/deadline.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <utility>

#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "core/base/text.h"
#include "core/recipe/scalar.h"

namespace accel {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

const double process_start = now();

constexpr auto kScontrolTime = std::chrono::seconds(5);
constexpr size_t kMostOutput = 64 << 10;
constexpr std::string_view kEndTime = "EndTime=";

/// Reads the pipe until its end or the time limit; false at the limit.
bool read_within(int fd, std::string& output) {
  const auto end = std::chrono::steady_clock::now() + kScontrolTime;
  for (std::array<char, 4096> buffer; output.size() < kMostOutput;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd ready = {fd, POLLIN, 0};
    const int events = ::poll(&ready, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (events < 0 && errno == EINTR) continue;
    if (events <= 0) return false;
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    output.append(buffer.data(), static_cast<size_t>(count));
  }
  return true;
}

/// What `scontrol show job` prints; "" if it fails or takes too long.
std::string scontrol_output(const std::string& job) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const OwnedFd read_end(ends[0]);
  OwnedFd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::array<const char*, 5> argv = {"scontrol", "show", "job", job.c_str(), nullptr};
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, argv[0], &actions, nullptr,
                                    const_cast<char* const*>(argv.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return {};
  write_end.reset();
  std::string output;
  const bool whole = read_within(read_end.get(), output);
  if (!whole) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return whole && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? output : std::string();
}

}  // namespace

std::optional<double> end_time_in(const std::string& shown) {
  const size_t begin = shown.find(kEndTime);
  if (begin == shown.npos) return std::nullopt;
  std::tm time = {};
  time.tm_isdst = -1;
  if (!::strptime(shown.c_str() + begin + kEndTime.size(), "%Y-%m-%dT%H:%M:%S", &time)) {
    return std::nullopt;
  }
  const std::time_t seconds = std::mktime(&time);
  return seconds < 0 ? std::nullopt : std::optional(static_cast<double>(seconds));
}

SlurmEnd slurm_end(const EnvironmentLookup& lookup, bool ask) {
  const std::string variable = lookup("SLURM_JOB_END_TIME").value_or("");
  if (!variable.empty()) {
    const auto end = parse_integer({variable}).value;
    if (end) return {static_cast<double>(*end), ""};
    throw Error(ExitCode::kRecipe,
                text("SLURM_JOB_END_TIME is '{}', not seconds since 1970", variable),
                "unset it, or set 'checkpoint.deadline'");
  }
  const std::string job = lookup("SLURM_JOB_ID").value_or("");
  if (job.empty() || !ask) return {};
  const std::string shown = scontrol_output(job);
  const std::optional<double> end = end_time_in(shown);
  if (!end) return {std::nullopt, text("the end of the Slurm job {} is unknown", job)};
  const std::string when = shown.substr(shown.find(kEndTime) + kEndTime.size(), 19);
  return {end, text("the Slurm job {} ends at {}, as scontrol reports", job, when)};
}

Deadline::Deadline(const std::optional<Duration>& given, bool ask_slurm) {
  if (given) end_ = process_start + given->value;
  SlurmEnd slurm = slurm_end(&environment_variable, ask_slurm);
  if (slurm.seconds) end_ = std::min(end_, *slurm.seconds);
  note_ = std::move(slurm.note);
}

double Deadline::seconds_left() const {
  return end_ - now();
}

}  // namespace accel
