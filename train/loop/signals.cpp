#include "train/loop/signals.h"

#include <unistd.h>

#include <csignal>

#include "core/base/environment.h"
#include "parallel/rendezvous/launcher_channel.h"

namespace accel {
namespace {

constexpr int kWatched[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
volatile std::sig_atomic_t received_signal = 0;

/// The launcher's process id in one of its ranks; else 0.
volatile pid_t launcher = 0;
volatile std::sig_atomic_t requested = 0;

/// Slurm signals launcher and ranks at once, and the launcher forwards the signal: that is one
/// request. The launcher ends its ranks by SIGKILL.
void on_signal(int signal, siginfo_t* info, void*) {
  const bool is_forwarded = launcher != 0 && info->si_pid == launcher;
  if (!is_forwarded && requested != 0) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  if (!is_forwarded) requested = 1;
  if (received_signal == 0) received_signal = signal;
}

void watch(int signal) {
  struct sigaction action {};
  action.sa_sigaction = &on_signal;
  sigemptyset(&action.sa_mask);
  // SA_NODEFER: the second signal must end the process from inside the handler.
  action.sa_flags = SA_RESTART | SA_NODEFER | SA_SIGINFO;
  sigaction(signal, &action, nullptr);
}

void ignore(int signal) {
  std::signal(signal, SIG_IGN);
}

void mask(int how) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kWatched) sigaddset(&signals, signal);
  pthread_sigmask(how, &signals, nullptr);
}

}  // namespace

SignalWatch::SignalWatch() {
  received_signal = 0;
  requested = 0;
  launcher = environment_variable(kTokenVariable) ? ::getppid() : 0;
  for (const int signal : kWatched) watch(signal);
  ignore(SIGPIPE);
  mask(SIG_UNBLOCK);
}

SignalWatch::~SignalWatch() {
  for (const int signal : kWatched) ignore(signal);
}

void SignalWatch::hold() {
  mask(SIG_BLOCK);
}

int SignalWatch::received() {
  return received_signal;
}

}  // namespace accel
