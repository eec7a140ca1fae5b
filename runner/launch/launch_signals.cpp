#include "runner/launch/launch_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <initializer_list>

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
  set_disposition(SIGCHLD, SIG_DFL, &old_child_);  // of an ignored one no end is kept
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

}  // namespace accel
