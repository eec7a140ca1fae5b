#include "checkpoint/bus_guard.h"

#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <mutex>
#include <string_view>

#include "core/base/error.h"

namespace accel {
namespace {

/// The jump target of this thread; null outside survives_bus_error().
thread_local sigjmp_buf* jump_target = nullptr;

void on_bus_error(int) {
  if (jump_target) siglongjmp(*jump_target, 1);
  constexpr std::string_view kMessage =
      "error: SIGBUS: a mapped file has shrunk, its disk failed, or shared memory is full\n"
      "  hint: look at the disk and at other programs that write to the run's files, and start "
      "again\n";
  (void)!::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  ::_exit(static_cast<int>(ExitCode::kIo));
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
