// The signals of a launcher as something to wait for.
#pragma once

#include <csignal>
#include <optional>

#include "runner/launch/owned_fd.h"

namespace accel {

/// SIGINT, SIGTERM, SIGHUP and SIGUSR1: requests to save and stop.
sigset_t user_signals();

/// While it lives these, SIGTSTP and SIGCHLD wait in line instead of acting, but for those that
/// were ignored before, as under nohup; SIGPIPE is ignored. Afterwards all is as before.
class LaunchSignals {
 public:
  LaunchSignals();
  ~LaunchSignals();
  LaunchSignals(const LaunchSignals&) = delete;
  LaunchSignals& operator=(const LaunchSignals&) = delete;

  /// Can be read when there is a signal; without that of children.
  int user_fd() const { return user_.get(); }
  /// Can be read when a child may have ended.
  int child_fd() const { return child_.get(); }
  /// The next one of a user that has come, if any.
  std::optional<int> next_of_user();
  void forget_children();

 private:
  sigset_t old_mask_ = {};
  struct sigaction old_child_ = {}, old_pipe_ = {};
  OwnedFd user_, child_;
};

}  // namespace accel
