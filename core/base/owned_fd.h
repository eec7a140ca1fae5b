// Owning file descriptor: the only way that files are opened by flags.
#pragma once

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace accel {

class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  ~OwnedFd() { reset(); }
  OwnedFd(OwnedFd&& from) noexcept : fd_(from.release()) {}
  OwnedFd& operator=(OwnedFd&& from) noexcept {
    if (this != &from) reset(from.release());
    return *this;
  }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

/// open(2) with O_CLOEXEC, repeated after a signal. Empty on failure, with errno set. `mode` is
/// reduced by the umask.
OwnedFd open_fd(const std::string& path, int flags, mode_t mode = 0666);

/// fsync(2). False on failure, with errno set.
bool sync_fd(const OwnedFd& fd);

}  // namespace accel
