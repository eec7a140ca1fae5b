// Ranks as processes: signals of the launcher, start and end, and output within bounds.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/owned_fd.h"
#include "runner/launch/supervisor.h"

namespace accel {

/// SIGINT, SIGTERM, SIGHUP and SIGUSR1: requests to save and stop.
sigset_t user_signals();

/// Signals of the launcher as descriptors for poll(). Blocks these signals, SIGTSTP and SIGCHLD and
/// queues them, except those that were ignored, as under nohup. Ignores SIGPIPE. The destructor
/// restores the previous state.
class LaunchSignals {
 public:
  LaunchSignals();
  ~LaunchSignals();
  LaunchSignals(const LaunchSignals&) = delete;
  LaunchSignals& operator=(const LaunchSignals&) = delete;

  /// Readable when a signal other than SIGCHLD is pending.
  int user_fd() const { return user_.get(); }
  /// Readable when a child may have ended.
  int child_fd() const { return child_.get(); }
  /// The next pending signal of the user, if any.
  std::optional<int> next_of_user();
  void forget_children();

 private:
  sigset_t old_mask_ = {};
  struct sigaction old_child_ = {}, old_pipe_ = {};
  OwnedFd user_, child_;
};

/// How to start a rank. Descriptors that are not handed over are closed on exec.
struct RankStart {
  std::string program;
  std::vector<std::string> argv;
  std::vector<std::string> environment;  ///< the whole environment, as NAME=value
  std::vector<int> handed;               ///< descriptors that it inherits under the same numbers
  int standard_error = -1;
  bool own_output = true;  ///< this process's standard output; else its standard error
};

/// Leads a process group, which is killed with it. Dies with the thread that started it.
class RankProcess {
 public:
  /// Returns once the program runs. Throws Error when it cannot.
  explicit RankProcess(const RankStart& start);
  ~RankProcess();
  RankProcess(RankProcess&& from) noexcept;
  RankProcess& operator=(RankProcess&&) = delete;

  pid_t pid() const { return pid_; }
  bool alive() const { return alive_; }
  void send(int signal) const;
  void send_to_group(int signal) const;
  /// How the process ended, once; then the rest of its group has been killed. Does not wait.
  std::optional<RankEnd> reap();

 private:
  pid_t pid_ = -1;
  bool alive_ = false;
};

/// 'R' running, 'S' asleep, 'T' stopped, ...: the kernel's letter; 0 for no such process.
char process_state(pid_t pid);

/// The last lines of a stream.
class LastLines {
 public:
  static constexpr size_t kLines = 20;
  static constexpr size_t kLongestLine = 400;  ///< bytes; the rest of a line is dropped

  void add(std::string_view text);
  /// At most kLines, including an unfinished line.
  std::vector<std::string> lines() const;

 private:
  std::deque<std::string> done_;
  std::string unfinished_;
};

/// A log file, created once there is output and its folder exists; until then the first 256 KiB are
/// buffered. At the cap, one line says that the rest was dropped. Failures cause one warning.
class LazyLog {
 public:
  static constexpr int64_t kCap = 16 << 20;  ///< bytes, including earlier contents

  /// Without a path nothing is written.
  explicit LazyLog(std::string path) : path_(std::move(path)) {}

  void add(std::string_view text);
  /// Whether this run wrote to the file.
  bool written() const { return static_cast<bool>(file_); }
  const std::string& path() const { return path_; }

 private:
  void open();
  void write(std::string_view text);

  std::string path_, pending_;
  OwnedFd file_;
  int64_t bytes_ = 0;
  bool closed_ = false;
};

/// Forwards text to a descriptor without waiting for its reader. At most 1 MiB is buffered; then a
/// line says that output was dropped.
class Relay {
 public:
  explicit Relay(int fd) : fd_(fd) {}

  void add(std::string_view text);
  bool pending() const { return !text_.empty(); }
  int fd() const { return fd_; }
  /// Writes as much as possible without blocking.
  void flush();
  /// Waits for a slow reader, at most this long.
  void finish(int milliseconds);

 private:
  int fd_;
  std::string text_;
  bool dropped_ = false;
};

/// The output pipe of a rank.
class RankOutput {
 public:
  /// Output goes to `relay`, or to the log when that is null.
  RankOutput(OwnedFd pipe, std::string log_path, Relay* relay);

  /// -1 once the rank has closed its end.
  int fd() const { return pipe_.get(); }
  /// Reads up to 1 MiB; returns whether there may be more.
  bool read();
  std::vector<std::string> last_lines() const { return tail_.lines(); }
  const LazyLog& log() const { return log_; }
  bool relayed() const { return relay_ != nullptr; }

 private:
  OwnedFd pipe_;
  LazyLog log_;
  Relay* relay_;
  LastLines tail_;
};

}  // namespace accel
