#include "checkpoint/bus_guard.h"

#include <csetjmp>
#include <csignal>
#include <mutex>

namespace accel {
namespace {

/// The jump target of this thread; null outside survives_bus_error().
thread_local sigjmp_buf* jump_target = nullptr;

void on_bus_error(int signal) {
  if (jump_target) siglongjmp(*jump_target, 1);
  // Raised elsewhere: the default action follows when this returns.
  std::signal(signal, SIG_DFL);
}

void install_handler() {
  struct sigaction action = {};
  action.sa_handler = &on_bus_error;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

bool survives_bus_error(void (*read)(void* argument), void* argument) {
  static std::once_flag once;
  std::call_once(once, &install_handler);
  sigjmp_buf here;
  if (sigsetjmp(here, 1) != 0) {
    jump_target = nullptr;
    return false;
  }
  jump_target = &here;
  read(argument);
  jump_target = nullptr;
  return true;
}

}  // namespace accel
