#include "checkpoint/run_lock.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

/// The holder's entry: "process 12 on host 'a'", and the boot id of its machine.
struct Holder {
  std::string name;  ///< empty: none
  std::string host;
  std::string boot;
};

std::string host_text() {
  return text(" on host '{}'", host_name());
}

Holder holder_in(int fd) {
  char content[512] = {};
  const ssize_t count = ::pread(fd, content, sizeof content - 1, 0);
  std::istringstream in(count > 0 ? std::string(content, static_cast<size_t>(count)) : "");
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
              text("run folder '{}' is in use by {}", run_dir,
                   holder.name.empty() ? "another process" : holder.name),
              "wait for it, stop it, or give this run another name");
}

/// Takes the lock or throws.
void lock(int fd, int how, const std::string& run_dir) {
  if (::flock(fd, how | LOCK_NB) == 0) return;
  const int error = errno;
  const Holder holder = holder_in(fd);
  if (error == EWOULDBLOCK) refuse(run_dir, holder);
  throw IoError(text("cannot lock '{}/run.lock': {}", run_dir, std::strerror(error)),
                "put the run folder on a file system with locks");
}

/// Refuses pipes, whose reads would block.
void require_file(int fd, const std::string& path) {
  struct stat status = {};
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) return;
  throw IoError(text("'{}' is not a regular file", path), "remove it");
}

}  // namespace

RunLock::RunLock(const std::string& run_dir) {
  const std::string path = run_dir + "/run.lock";
  fd_ = open_fd(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
  if (!fd_) throw IoError(text("cannot create '{}': {}", path, std::strerror(errno)));
  require_file(fd_.get(), path);
  lock(fd_.get(), LOCK_EX, run_dir);
  const Holder before = holder_in(fd_.get());
  const std::string boot = boot_id();
  // Containers of one machine differ in host name but share the boot id; a reboot changes it.
  const bool elsewhere = !before.host.empty() && before.host != host_text();
  if (elsewhere && before.boot != boot) doubtful_holder_ = before.name;
  const std::string entry = text("process {}{}\nboot {}\n", ::getpid(), host_text(), boot);
  const bool written =
      ::ftruncate(fd_.get(), 0) == 0 &&
      ::pwrite(fd_.get(), entry.data(), entry.size(), 0) == static_cast<ssize_t>(entry.size());
  if (!written) throw IoError(text("cannot write '{}': {}", path, std::strerror(errno)));
}

void RunLock::check_free(const std::string& run_dir) {
  const std::string path = run_dir + "/run.lock";
  const OwnedFd fd = open_fd(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!fd) return;  // not locked, or an error that the constructor reports
  require_file(fd.get(), path);
  lock(fd.get(), LOCK_SH, run_dir);
  ::flock(fd.get(), LOCK_UN);  // not left to close(), which may fail
}

RunLock::~RunLock() {
  // A remaining name means that the process was killed.
  [[maybe_unused]] const int ignored = ::ftruncate(fd_.get(), 0);
}

}  // namespace accel
