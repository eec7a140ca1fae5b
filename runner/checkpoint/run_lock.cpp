#include "runner/checkpoint/run_lock.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/error.h"

namespace accel {
namespace {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

/// What the holder wrote about itself: "process 12 on host 'a'".
std::string holder_of(int fd) {
  char text[512] = {};
  const ssize_t count = ::pread(fd, text, sizeof text - 1, 0);
  const std::string line = count > 0 ? std::string(text, static_cast<size_t>(count)) : "";
  const size_t end = line.find('\n');
  return end == line.npos ? "another process" : line.substr(0, end);
}

}  // namespace

RunLock::RunLock(const std::string& run_dir) {
  const std::string path = run_dir + "/run.lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0) throw IoError("cannot make '" + path + "': " + std::strerror(errno));
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const std::string holder = holder_of(fd_);
    ::close(fd_);
    if (error != EWOULDBLOCK) {
      throw IoError("cannot lock '" + path + "': " + std::strerror(error));
    }
    throw Error(ExitCode::kRecipe, "run folder '" + run_dir + "' is in use by " + holder,
                "wait for it, stop it, or give this run another name");
  }
  const std::string text = "process " + std::to_string(::getpid()) + " on host '" + host_name() +
                           "'\nboot " + boot_id() + "\n";
  const bool written = ::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, text.data(), text.size(), 0) ==
                                                       static_cast<ssize_t>(text.size());
  if (!written) {
    const int error = errno;
    ::close(fd_);
    throw IoError("cannot write '" + path + "': " + std::strerror(error));
  }
}

RunLock::~RunLock() {
  ::close(fd_);
}

}  // namespace accel
