#include "runner/checkpoint/bus_guard.h"

#include <csetjmp>
#include <csignal>
#include <mutex>

namespace accel {
namespace {

/// Where this thread goes on after a bus error; null outside of survives_bus_error().
thread_local sigjmp_buf* way_out = nullptr;

void on_bus_error(int signal) {
  if (way_out) siglongjmp(*way_out, 1);
  // Not ours: what would have happened, happens as soon as this returns.
  std::signal(signal, SIG_DFL);
}

void watch() {
  struct sigaction action = {};
  action.sa_handler = &on_bus_error;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

bool survives_bus_error(void (*read)(void* argument), void* argument) {
  static std::once_flag once;
  std::call_once(once, &watch);
  sigjmp_buf here;
  if (sigsetjmp(here, 1) != 0) {
    way_out = nullptr;
    return false;
  }
  way_out = &here;
  read(argument);
  way_out = nullptr;
  return true;
}

}  // namespace accel
