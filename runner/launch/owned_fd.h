// A file descriptor that is closed by its owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace accel {

class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  ~OwnedFd() { reset(); }
  OwnedFd(OwnedFd&& from) noexcept : fd_(std::exchange(from.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& from) noexcept {
    if (this != &from) reset(std::exchange(from.fd_, -1));
    return *this;
  }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

}  // namespace accel
