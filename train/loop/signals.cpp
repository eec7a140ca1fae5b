#include "train/loop/signals.h"

#include <csignal>

namespace accel {
namespace {

constexpr int kWatched[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
volatile std::sig_atomic_t received_signal = 0;

void on_signal(int signal) {
  if (received_signal != 0) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  received_signal = signal;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  // SA_NODEFER: the second signal must end the process from inside the handler.
  action.sa_flags = SA_RESTART | SA_NODEFER;
  sigaction(signal, &action, nullptr);
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
  for (const int signal : kWatched) handle(signal, &on_signal);
  handle(SIGPIPE, SIG_IGN);
  mask(SIG_UNBLOCK);
}

SignalWatch::~SignalWatch() {
  for (const int signal : kWatched) handle(signal, SIG_IGN);
}

void SignalWatch::hold() {
  mask(SIG_BLOCK);
}

int SignalWatch::received() {
  return received_signal;
}

}  // namespace accel
