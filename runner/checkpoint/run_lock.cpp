#include "runner/checkpoint/run_lock.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/host_name.h"

namespace accel {
namespace {

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

/// What the holder wrote about itself: "process 12 on host 'a'", and how often its machine started.
struct Holder {
  std::string name;  ///< empty: nobody
  std::string host;
  std::string boot;
};

std::string host_text() {
  return " on host '" + host_name() + "'";
}

Holder holder_in(int fd) {
  char text[512] = {};
  const ssize_t count = ::pread(fd, text, sizeof text - 1, 0);
  std::istringstream in(count > 0 ? std::string(text, static_cast<size_t>(count)) : "");
  Holder holder;
  std::string key;
  std::getline(in, holder.name);
  in >> key >> holder.boot;
  const size_t host = holder.name.find(" on host ");
  if (host != holder.name.npos) holder.host = holder.name.substr(host);
  return holder;
}

[[noreturn]] void refuse(const std::string& run_dir, const Holder& holder) {
  throw Error(ExitCode::kRecipe,
              "run folder '" + run_dir + "' is in use by " +
                  (holder.name.empty() ? "another process" : holder.name),
              "wait for it, stop it, or give this run another name");
}

/// Takes the lock or throws; the file is closed then.
void lock(int fd, int how, const std::string& run_dir) {
  if (::flock(fd, how | LOCK_NB) == 0) return;
  const int error = errno;
  const Holder holder = holder_in(fd);
  ::close(fd);
  if (error == EWOULDBLOCK) refuse(run_dir, holder);
  throw IoError("cannot lock '" + run_dir + "/run.lock': " + std::strerror(error));
}

/// A pipe would be read from for ever.
void require_file(int fd, const std::string& path) {
  struct stat facts = {};
  if (::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode)) return;
  ::close(fd);
  throw IoError("'" + path + "' is no regular file", "remove it");
}

}  // namespace

RunLock::RunLock(const std::string& run_dir) {
  const std::string path = run_dir + "/run.lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (fd_ < 0) throw IoError("cannot make '" + path + "': " + std::strerror(errno));
  require_file(fd_, path);
  lock(fd_, LOCK_EX, run_dir);
  const Holder before = holder_in(fd_);
  const std::string boot = boot_id();
  // Containers of one machine have many host names, and a machine that was restarted another boot.
  const bool elsewhere = !before.host.empty() && before.host != host_text();
  if (elsewhere && before.boot != boot) doubtful_holder_ = before.name;
  const std::string text =
      "process " + std::to_string(::getpid()) + host_text() + "\nboot " + boot + "\n";
  const bool written = ::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, text.data(), text.size(), 0) ==
                                                       static_cast<ssize_t>(text.size());
  if (!written) {
    const int error = errno;
    ::close(fd_);
    throw IoError("cannot write '" + path + "': " + std::strerror(error));
  }
}

void RunLock::check_free(const std::string& run_dir) {
  const std::string path = run_dir + "/run.lock";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return;  // nobody has it, or the constructor will tell
  require_file(fd, path);
  lock(fd, LOCK_SH, run_dir);
  ::flock(fd, LOCK_UN);  // not left to close(), which may fail
  ::close(fd);
}

RunLock::~RunLock() {
  // A name that stays says: this process did not end by itself.
  [[maybe_unused]] const int ignored = ::ftruncate(fd_, 0);
  ::close(fd_);
}

}  // namespace accel
