#include "core/base/owned_fd.h"

#include <cerrno>

namespace accel {

OwnedFd open_fd(const std::string& path, int flags, mode_t mode) {
  for (;;) {
    OwnedFd fd(::open(path.c_str(), flags | O_CLOEXEC, mode));
    if (fd || errno != EINTR) return fd;
  }
}

bool sync_fd(const OwnedFd& fd) {
  return ::fsync(fd.get()) == 0;
}

}  // namespace accel
