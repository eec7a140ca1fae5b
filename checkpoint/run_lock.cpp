#include "checkpoint/run_lock.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/text.h"

namespace accel {
namespace {

LockHolder holder_in(const OwnedFd& fd) {
  char content[1024] = {};
  const ssize_t count = ::pread(fd.get(), content, sizeof content, 0);
  return lock_holder_in(count > 0 ? std::string(content, static_cast<size_t>(count)) : "");
}

std::string name_of(const LockHolder& holder) {
  return holder.name.empty() ? "another process" : holder.name;
}

/// Locks the open file, or returns false when another process has it locked.
bool try_lock(const OwnedFd& fd, int how, const std::string& run_dir) {
  if (::flock(fd.get(), how | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  throw IoError(text("cannot lock '{}/run.lock': {}", run_dir, std::strerror(errno)),
                "put the run folder on a file system with locks");
}

/// Locks the open file, after a wait for a holder that is ending, or throws.
void wait_for_lock(const OwnedFd& fd, int how, const std::string& run_dir, const LockWait& wait) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kBetweenLooks(10);
  const Clock::time_point start = Clock::now();
  bool said = false;
  while (!try_lock(fd, how, run_dir)) {
    const LockHolder holder = holder_in(fd);
    const auto waited = Clock::now() - start;
    // A holder without an entry has just taken the lock, or is about to release it.
    const bool ending = holder.name.empty() || is_ending(holder);
    if (waited >= wait.patience && !(ending && waited < wait.ending)) {
      throw Error(ExitCode::kInUse,
                  text("run folder '{}' is in use by {}", run_dir, name_of(holder)),
                  "wait for it, stop it, or give this run another name");
    }
    if (waited >= wait.patience && !holder.name.empty() && !std::exchange(said, true)) {
      say(text("waiting for {}, which is ending, to release '{}'", name_of(holder), run_dir));
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

/// Refuses pipes, whose reads would block.
void require_file(const OwnedFd& fd, const std::string& path) {
  struct stat status = {};
  if (::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode)) return;
  throw IoError(text("'{}' is not a regular file", path), "remove it");
}

/// The lock file at `path`, created if it is missing.
OwnedFd open_lock(const std::string& path) {
  OwnedFd fd = open_fd(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
  if (!fd) throw IoError(text("cannot create '{}': {}", path, std::strerror(errno)));
  require_file(fd, path);
  return fd;
}

/// Where an open folder is now; empty when it was removed.
std::string place_of(const OwnedFd& folder) {
  std::error_code error;
  const std::string place =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(folder.get()), error)
          .string();
  struct stat status = {};
  const bool exists = ::fstat(folder.get(), &status) == 0 && status.st_nlink > 0;
  return error || !exists || !std::filesystem::is_directory(place, error) ? "" : place;
}

}  // namespace

RunLock::RunLock(std::string run_dir, int64_t local_ranks, LockWait wait)
    : run_dir_(std::move(run_dir)), self_(this_holder(local_ranks)) {
  // The file may be removed between the open and the lock, which then excludes nobody.
  do {
    fd_ = open_lock(path());
    wait_for_lock(fd_, LOCK_EX, run_dir_, wait);
  } while (id_of(path()) != id_of(fd_));
  folder_ = open_fd(run_dir_, O_PATH | O_DIRECTORY);
  if (!folder_) throw IoError(text("cannot open '{}': {}", run_dir_, std::strerror(errno)));
  const LockHolder before = holder_in(fd_);
  // Containers of one machine differ in host name but share the boot id; a reboot changes it.
  const bool elsewhere = !before.host.empty() && before.host != self_.host;
  if (elsewhere && before.boot != self_.boot) doubtful_holder_ = before.name;
  write_entry();
}

void RunLock::check_free(const std::string& run_dir, LockWait wait) {
  const std::string path = run_dir + "/run.lock";
  const OwnedFd fd = open_fd(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!fd) return;  // not locked, or an error that the constructor reports
  require_file(fd, path);
  wait_for_lock(fd, LOCK_SH, run_dir, wait);
  ::flock(fd.get(), LOCK_UN);  // not left to close(), which may fail
}

RunLock::~RunLock() {
  // A remaining name means that the process was killed.
  [[maybe_unused]] const int ignored = ::ftruncate(fd_.get(), 0);
}

std::optional<RunLock::FileId> RunLock::id_of(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return FileId(status.st_dev, status.st_ino);
}

std::optional<RunLock::FileId> RunLock::id_of(const OwnedFd& fd) {
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return std::nullopt;
  return FileId(status.st_dev, status.st_ino);
}

void RunLock::write_entry() {
  const std::string entry = to_text(self_);
  const bool written =
      ::ftruncate(fd_.get(), 0) == 0 &&
      ::pwrite(fd_.get(), entry.data(), entry.size(), 0) == static_cast<ssize_t>(entry.size());
  if (!written) throw IoError(text("cannot write '{}': {}", path(), std::strerror(errno)));
}

void RunLock::lose(ExitCode code, const std::string& message, const std::string& hint) {
  lost_.emplace(code, message, hint);
  throw *lost_;
}

void RunLock::lose_folder() {
  const std::string place = place_of(folder_);
  if (!place.empty()) {
    lose(ExitCode::kIo,
         text("the run folder '{}' was moved to '{}' during the run", run_dir_, place),
         text("its newest checkpoint is there: accel-run resume {}", place));
  }
  lose(ExitCode::kIo, text("the run folder '{}' was removed during the run", run_dir_),
       "its checkpoints are gone with it: start the run again");
}

void RunLock::check() {
  if (lost_) throw *lost_;
  struct stat folder = {};
  const bool exists = ::stat(run_dir_.c_str(), &folder) == 0;
  if (!exists || FileId(folder.st_dev, folder.st_ino) != id_of(folder_)) lose_folder();
  if (id_of(path()) != id_of(fd_)) lock_again();
}

void RunLock::lock_again() {
  OwnedFd fresh;
  do {
    fresh = open_lock(path());
    if (!try_lock(fresh, LOCK_EX, run_dir_)) {
      lose(ExitCode::kInUse,
           text("'{}' was removed or replaced during the run, and {} has taken over the run folder",
                path(), name_of(holder_in(fresh))),
           "wait for that process, or stop it, and start this run again");
    }
  } while (id_of(path()) != id_of(fresh));
  fd_ = std::move(fresh);
  write_entry();
  warn(text("'{}' was removed or replaced during the run: the run folder is locked again", path()));
}

}  // namespace accel
