// The real files when the system refuses or shortens a call: the C library's own functions are
// replaced in this binary, and follow the test while a fault is armed.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <filesystem>
#include <string>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "checkpoint/run_lock.h"
#include "checkpoint/store.h"
#include "core/base/error.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel::disk_faults_test {
namespace {

/// What calls meet from now on.
struct CallFaults {
  int fail_at = 0;  ///< the number of the call that fails; 0: none
  int error = 0;
  bool once_each = false;  ///< instead, every call fails with EINTR once before it is made
  bool shorten = false;    ///< reads and writes do less than they are asked to
};
CallFaults faults;
std::atomic<int> calls = 0;  // large files are written by several threads

void arm(const CallFaults& next) {
  faults = next;
  calls = 0;
}

bool fired() {
  return faults.fail_at > 0 && calls >= faults.fail_at;
}

/// Whether the call at hand is to fail; sets errno.
bool refused(bool restartable) {
  const int number = ++calls;
  if (faults.once_each && restartable) {
    thread_local bool interrupted = false;
    interrupted = !interrupted;
    errno = EINTR;
    return interrupted;
  }
  if (number != faults.fail_at) return false;
  errno = faults.error;
  return true;
}

size_t shortened(size_t count) {
  return faults.shorten ? std::min<size_t>(count, count / 3 + 1) : count;
}

}  // namespace
}  // namespace accel::disk_faults_test

extern "C" {

ssize_t write(int fd, const void* bytes, size_t count) {
  if (accel::disk_faults_test::refused(true)) return -1;
  return syscall(SYS_write, fd, bytes, accel::disk_faults_test::shortened(count));
}

ssize_t read(int fd, void* bytes, size_t count) {
  if (accel::disk_faults_test::refused(true)) return -1;
  return syscall(SYS_read, fd, bytes, accel::disk_faults_test::shortened(count));
}

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (accel::disk_faults_test::refused(true)) return -1;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

int fsync(int /*fd*/) {
  return accel::disk_faults_test::refused(false)
             ? -1
             : 0;  // no test here cuts the power: not waiting saves seconds
}

int close(int fd) {
  const bool fails = accel::disk_faults_test::refused(false);
  const int error = errno;
  const auto result = static_cast<int>(syscall(SYS_close, fd));  // Linux closes it all the same
  errno = error;
  return fails ? -1 : result;
}

int flock(int fd, int operation) noexcept {
  if (accel::disk_faults_test::refused(false)) return -1;
  return static_cast<int>(syscall(SYS_flock, fd, operation));
}

int rename(const char* from, const char* to) noexcept {
  if (accel::disk_faults_test::refused(false)) return -1;
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (accel::disk_faults_test::refused(false)) return -1;
  return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

dirent* readdir(DIR* folder) {
  static const auto real = reinterpret_cast<dirent* (*)(DIR*)>(dlsym(RTLD_NEXT, "readdir"));
  return accel::disk_faults_test::refused(false) ? nullptr : real(folder);
}

int unlinkat(int folder, const char* name, int flags) noexcept {
  if (accel::disk_faults_test::refused(false)) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, folder, name, flags));
}

}  // extern "C"

namespace accel::disk_faults_test {
namespace {

class DiskFaultTest : public testing::Test {
 protected:
  DiskFaultTest() {
    store_.save(small_state(10));
    store_.save(small_state(20));
  }
  ~DiskFaultTest() override {
    arm({});
    std::filesystem::remove_all(folder_);
  }

  void save_and_rotate() {
    store_.save(small_state(30));
    store_.retain({.last = 2});
  }

  /// The disk of a run with the checkpoints 10 and 20, whatever was done to it.
  void start_anew() {
    arm({});
    std::filesystem::remove_all(folder_ + "/checkpoints/checkpoint_30");
    if (store_.list().front().step != 10) store_.save(small_state(10));
  }

  void expect_sound(const std::string& when) {
    store_.recover();
    EXPECT_TRUE(disk_.list(folder_ + "/staging").empty()) << when;
    for (const CheckpointEntry& entry : store_.list()) {
      EXPECT_EQ(text_of(store_.load(entry.path)), text_of(small_state(entry.step))) << when;
    }
    EXPECT_GE(store_.list().back().step, 20) << when;
  }

  static std::string fresh_folder() {
    std::string pattern = testing::TempDir() + "disk_faults_XXXXXX";
    return ::mkdtemp(pattern.data());
  }

  std::string folder_ = fresh_folder();
  DiskFiles disk_;
  CheckpointStore store_{disk_, folder_};
};

TEST_F(DiskFaultTest, ShortAndInterruptedCallsAreGoneOnWith) {
  arm({.once_each = true, .shorten = true});
  save_and_rotate();
  const std::string text = text_of(store_.load(folder_ + "/checkpoints/checkpoint_30"));
  EXPECT_GT(calls, 500);  // a write of n bytes takes many calls
  arm({});
  EXPECT_EQ(text, text_of(small_state(30)));
  expect_sound("after short calls");
}

TEST_F(DiskFaultTest, EachCallOfAFileTellsThatItFailed) {
  const auto make_one = [this] {
    const auto file = disk_.create(folder_ + "/a");
    file->write(as_bytes("text"));
    file->sync();
    file->close();
    disk_.rename(folder_ + "/a", folder_ + "/b");
    disk_.sync_dir(folder_);
    disk_.remove_tree(folder_ + "/b");
  };
  const std::pair<const char*, const char*> reported[] = {
      {"create", "/a"}, {"write", "/a"}, {"sync", "/a"}, {"close", "/a"},
      {"rename", "/a"}, {"sync", ""},    {"sync", ""},
  };
  int n = 0;
  for (const auto& [action, name] : reported) {
    arm({.fail_at = ++n, .error = EIO});
    std::string text;
    try {
      make_one();
    } catch (const FileError& error) {
      text = error.what();
    }
    arm({});
    EXPECT_EQ(text,
              std::string("cannot ") + action + " '" + folder_ + name + "': Input/output error");
    for (const char* left : {"/a", "/b"}) disk_.remove_tree(folder_ + left);
  }
}

TEST_F(DiskFaultTest, AFolderThatCannotBeListedIsNotTakenForAnEmptyOne) {
  arm({.fail_at = 2, .error = EIO});  // at the second name
  try {
    store_.list();
    FAIL() << "listed";
  } catch (const IoError& error) {
    EXPECT_EQ(std::string(error.what()),
              "cannot list '" + folder_ + "/checkpoints': Input/output error");
  }
}

TEST_F(DiskFaultTest, AFileSystemWithoutLocksIsAnError) {
  arm({.fail_at = 2, .error = ENOLCK});  // behind open()
  try {
    const RunLock lock(folder_);
    FAIL() << "locked";
  } catch (const IoError& error) {
    EXPECT_EQ(std::string(error.what()),
              "cannot lock '" + folder_ + "/run.lock': No locks available");
    EXPECT_EQ(error.hint(), "put the run folder on a file system with locks");
  }
}

TEST_F(DiskFaultTest, AnErrorOfAnyCallIsToldAndCostsNoCheckpoint) {
  int struck = 0;
  for (const int error : {ENOSPC, EIO, EDQUOT, EROFS, EMFILE, EINTR}) {
    for (int n = 1;; ++n) {
      const std::string when = std::string(std::strerror(error)) + " at call " + std::to_string(n);
      arm({.fail_at = n, .error = error});
      try {
        save_and_rotate();
      } catch (const IoError& failure) {
        const std::string text = failure.what();
        EXPECT_NE(text.find(std::strerror(error)), text.npos) << when << ": " << text;
        EXPECT_NE(text.find("'" + folder_), text.npos) << when << ": " << text;
      }
      const bool struck_one = fired();
      arm({});
      if (!struck_one) break;
      ++struck;
      expect_sound(when);
      start_anew();
      ASSERT_LT(n, 1000);
    }
  }
  EXPECT_GE(struck, 300);
  RecordProperty("struck", struck);
}

}  // namespace
}  // namespace accel::disk_faults_test
