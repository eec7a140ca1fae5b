#include "runner/launch/rank_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr int kUserSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

bool is_ignored(int signal) {
  struct sigaction action = {};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

void set_disposition(int signal, void (*handler)(int), struct sigaction* old) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, old);
}

std::optional<int> read_signal(int fd) {
  signalfd_siginfo info = {};
  if (::read(fd, &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Everything that the child needs, built before the fork: it must not allocate.
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
  action.sa_handler = SIG_IGN;  // a terminal stops background writers
  ::sigaction(SIGTTOU, &action, nullptr);
  const sigset_t held = user_signals();
  ::pthread_sigmask(SIG_SETMASK, &held, nullptr);
}

/// In the child, where only async-signal-safe calls are allowed. Returns when it fails.
void become_rank(const Prepared& from) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != from.parent) ::_exit(127);  // the parent died before prctl()
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
  throw Error(ExitCode::kOther, text("cannot start '{}': {}", program, std::strerror(error)));
}

constexpr size_t kPending = 256 << 10;
constexpr size_t kRelayed = 1 << 20;
constexpr size_t kAtomicWrite =
    4096;  // PIPE_BUF: a write of this size to a ready pipe does not block

bool writable(int fd, int milliseconds) {
  pollfd ready = {fd, POLLOUT, 0};
  return ::poll(&ready, 1, milliseconds) > 0;
}

}  // namespace

sigset_t user_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kUserSignals) sigaddset(&signals, signal);
  return signals;
}

LaunchSignals::LaunchSignals() {
  sigset_t users, child, both;
  sigemptyset(&users);
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  both = child;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGTSTP}) {
    if (is_ignored(signal)) continue;
    sigaddset(&users, signal);
    sigaddset(&both, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &both, &old_mask_);
  set_disposition(SIGPIPE, SIG_IGN, &old_pipe_);
  set_disposition(SIGCHLD, SIG_DFL,
                  &old_child_);  // while it is ignored, children are not kept for waitpid()
  user_.reset(::signalfd(-1, &users, SFD_CLOEXEC | SFD_NONBLOCK));
  child_.reset(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
}

LaunchSignals::~LaunchSignals() {
  forget_children();
  ::sigaction(SIGCHLD, &old_child_, nullptr);
  ::sigaction(SIGPIPE, &old_pipe_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

std::optional<int> LaunchSignals::next_of_user() {
  return read_signal(user_.get());
}

void LaunchSignals::forget_children() {
  while (read_signal(child_.get())) continue;
}

RankProcess::RankProcess(const RankStart& start) {
  Prepared prepared = {start, pointers(start.argv), pointers(start.environment)};
  int ends[2];
  const OwnedFd null = open_fd("/dev/null", O_RDWR);
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
    [[maybe_unused]] const ssize_t written = ::write(prepared.report, &error, sizeof error);
    ::_exit(127);
  }
  if (pid_ < 0) cannot_start(start.program, errno);
  ::setpgid(pid_, pid_);  // in parent and child, whichever is first
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
  send_to_group(SIGKILL);  // before the group's id can be reused
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

void LastLines::add(std::string_view text) {
  size_t start = text.size();
  for (size_t lines = 0; start > 0 && lines <= kLines; --start) lines += text[start - 1] == '\n';
  if (start > 0) {  // enough for most floods of output
    text.remove_prefix(start + 1);
    unfinished_.clear();
  }
  while (!text.empty()) {
    const size_t end = text.find_first_of("\n\r");
    const std::string_view piece = text.substr(0, end);
    unfinished_.append(piece.substr(0, kLongestLine - std::min(kLongestLine, unfinished_.size())));
    if (end == std::string_view::npos) return;
    if (text[end] == '\n') done_.push_back(std::move(unfinished_));
    unfinished_.clear();  // a carriage return overwrites the line
    if (done_.size() > kLines) done_.pop_front();
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> LastLines::lines() const {
  std::vector<std::string> lines(done_.begin(), done_.end());
  if (!unfinished_.empty()) lines.push_back(unfinished_);
  if (lines.size() > kLines) lines.erase(lines.begin());
  return lines;
}

void LazyLog::open() {
  std::error_code ignored;
  if (!std::filesystem::is_directory(std::filesystem::path(path_).parent_path(), ignored)) return;
  file_ = open_fd(path_, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW);
  struct stat context = {};
  if (!file_ || ::fstat(file_.get(), &context) != 0) {
    closed_ = true;
    warn(
        accel::text("output of a rank is lost: cannot open '{}': {}", path_, std::strerror(errno)));
    return;
  }
  bytes_ = context.st_size;
  write(std::exchange(pending_, {}));
}

void LazyLog::write(std::string_view text) {
  const bool full = bytes_ + static_cast<int64_t>(text.size()) > kCap;
  const auto room = static_cast<size_t>(std::max<int64_t>(0, kCap - bytes_));
  std::string with_end;
  if (full) {
    with_end = text.substr(0, room);
    with_end += "\naccel-run: the log is full, further output was dropped\n";
    text = with_end;
    closed_ = true;
  }
  while (!text.empty()) {
    const ssize_t count = ::write(file_.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      closed_ = true;
      return warn(accel::text("output of a rank is lost: cannot write '{}': {}", path_,
                              std::strerror(errno)));
    }
    bytes_ += count;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

void LazyLog::add(std::string_view text) {
  if (closed_ || path_.empty()) return;
  if (!file_) {
    pending_ += text.substr(0, kPending - std::min(kPending, pending_.size()));
    return open();
  }
  write(text);
}

void Relay::add(std::string_view text) {
  const size_t room = kRelayed - std::min(kRelayed, text_.size());
  dropped_ |= text.size() > room;
  text_ += text.substr(0, room);
  flush();
}

void Relay::flush() {
  while (!text_.empty() && writable(fd_, 0)) {
    const ssize_t count = ::write(fd_, text_.data(), std::min(text_.size(), kAtomicWrite));
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    text_.erase(0, count < 0 ? text_.size() : static_cast<size_t>(count));
    if (text_.empty() && std::exchange(dropped_, false)) {
      text_ = "\naccel-run: output was dropped because it is read too slowly\n";
    }
  }
}

void Relay::finish(int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  for (flush(); pending() && std::chrono::steady_clock::now() < end; flush()) writable(fd_, 100);
}

RankOutput::RankOutput(OwnedFd pipe, std::string log_path, Relay* relay)
    : pipe_(std::move(pipe)), log_(std::move(log_path)), relay_(relay) {
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
}

bool RankOutput::read() {
  char buffer[65536];
  for (int i = 0; i < 16 && pipe_; ++i) {
    const ssize_t count = ::read(pipe_.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return false;
    if (count <= 0) {
      pipe_.reset();
      return false;
    }
    const std::string_view text(buffer, static_cast<size_t>(count));
    tail_.add(text);
    if (relay_) {
      relay_->add(text);
    } else {
      log_.add(text);
    }
  }
  return static_cast<bool>(pipe_);
}

}  // namespace accel
