#include "runner/launch/rank_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "runner/launch/launch_signals.h"
#include "runner/launch/owned_fd.h"

namespace accel {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// All that the child needs, made before the fork: after it, memory must not be asked for.
struct Prepared {
  const RankStart& start;
  std::vector<char*> argv, environment;
  int null = -1, report = -1;
  pid_t parent = -1;
};

void set_signals_of_rank() {
  struct sigaction action = {};
  sigemptyset(&action.sa_mask);
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGPIPE, &action, nullptr);
  action.sa_handler = SIG_IGN;  // a terminal would stop what writes to it from the background
  ::sigaction(SIGTTOU, &action, nullptr);
  const sigset_t held = user_signals();
  ::pthread_sigmask(SIG_SETMASK, &held, nullptr);
}

/// In the child, where only async-signal-safe calls are allowed. Returns when it fails.
void become_rank(const Prepared& from) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != from.parent) ::_exit(127);  // it died before the line above
  set_signals_of_rank();
  const RankStart& start = from.start;
  if (::dup2(from.null, STDIN_FILENO) < 0) return;
  if (::dup2(start.standard_error, STDERR_FILENO) < 0) return;
  if (!start.own_output && ::dup2(start.standard_error, STDOUT_FILENO) < 0) return;
  for (const int fd : start.handed) {
    if (::fcntl(fd, F_SETFD, 0) < 0) return;
  }
  ::execve(start.program.c_str(), from.argv.data(), from.environment.data());
}

[[noreturn]] void cannot_start(const std::string& program, int error) {
  throw Error(ExitCode::kOther, "cannot start '" + program + "': " + std::strerror(error));
}

}  // namespace

RankProcess::RankProcess(const RankStart& start) {
  Prepared prepared = {start, pointers(start.argv), pointers(start.environment)};
  int ends[2];
  const OwnedFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null || ::pipe2(ends, O_CLOEXEC) != 0) cannot_start(start.program, errno);
  const OwnedFd read_end(ends[0]);
  OwnedFd write_end(ends[1]);
  prepared.null = null.get();
  prepared.report = write_end.get();
  prepared.parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    become_rank(prepared);
    const int error = errno;
    [[maybe_unused]] const ssize_t told = ::write(prepared.report, &error, sizeof error);
    ::_exit(127);
  }
  if (pid_ < 0) cannot_start(start.program, errno);
  ::setpgid(pid_, pid_);  // whoever comes first
  alive_ = true;
  write_end.reset();
  int error = 0;
  ssize_t got = 0;
  while ((got = ::read(read_end.get(), &error, sizeof error)) < 0 && errno == EINTR) continue;
  if (got <= 0) return;
  ::waitpid(pid_, nullptr, 0);
  alive_ = false;
  cannot_start(start.program, error);
}

RankProcess::~RankProcess() {
  if (!alive_) return;
  send_to_group(SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

RankProcess::RankProcess(RankProcess&& from) noexcept
    : pid_(from.pid_), alive_(std::exchange(from.alive_, false)) {}

void RankProcess::send(int signal) const {
  if (alive_) ::kill(pid_, signal);
}

void RankProcess::send_to_group(int signal) const {
  if (alive_) ::kill(-pid_, signal);
}

std::optional<RankEnd> RankProcess::reap() {
  siginfo_t info = {};
  const auto id = static_cast<id_t>(pid_);
  if (!alive_ || ::waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  send_to_group(SIGKILL);  // while its number cannot be another group's
  ::waitid(P_PID, id, &info, WEXITED | WNOHANG);
  alive_ = false;
  return RankEnd{info.si_code != CLD_EXITED, info.si_status};
}

char process_state(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t name_end = text.rfind(')');
  return name_end + 2 < text.size() ? text[name_end + 2] : '\0';
}

}  // namespace accel
