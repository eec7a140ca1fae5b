// One job per run folder, also across processes and after a kill.
#include "checkpoint/run_lock.h"

#include <gtest/gtest.h>

#include <functional>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel::run_lock_test {
namespace {

class RunLockTest : public testing::Test {
 protected:
  RunLockTest() {
    std::string pattern = testing::TempDir() + "run_lock_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~RunLockTest() override { std::filesystem::remove_all(folder_); }

  enum class Child { kAlone, kForked };
  static constexpr std::chrono::milliseconds kShort{20};

  /// Forks a process that holds the lock until it is killed. A forked child of it shares the lock
  /// and stops; it ends when it continues.
  pid_t holder(int64_t ranks = 0, Child kind = Child::kAlone) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const RunLock lock(folder_, ranks);
      const pid_t shared = kind == Child::kForked ? ::fork() : -1;
      if (shared == 0) {
        ::raise(SIGSTOP);
        ::_exit(0);
      }
      EXPECT_EQ(::write(ready[1], &shared, sizeof shared), static_cast<ssize_t>(sizeof shared));
      ::pause();
      ::_exit(0);
    }
    EXPECT_EQ(::read(ready[0], &grandchild_, sizeof grandchild_),
              static_cast<ssize_t>(sizeof grandchild_));
    ::close(ready[0]);
    ::close(ready[1]);
    return child;
  }

  pid_t grandchild() const { return grandchild_; }

  std::string content() const {
    std::ifstream in(folder_ + "/run.lock");
    return {std::istreambuf_iterator<char>(in), {}};
  }

  static std::string name_of(pid_t pid) {
    return text("process {} on host '{}'", pid, this_holder(0).host);
  }

  static void end(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  std::string folder_;

 private:
  pid_t grandchild_ = -1;
};

TEST_F(RunLockTest, ASecondHolderIsToldWhoHasIt) {
  const pid_t child = holder();
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  try {
    const RunLock lock(folder_);
    FAIL() << "two holders";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInUse);
    EXPECT_EQ(std::string(error.what()), "run folder '" + folder_ + "' is in use by process " +
                                             std::to_string(child) + " on host '" + host + "'");
    EXPECT_EQ(error.hint(), "wait for it, stop it, or give this run another name");
  }
  end(child);
}

TEST_F(RunLockTest, AKilledHolderLetsGo) {
  end(holder());
  const RunLock lock(folder_);
}

TEST_F(RunLockTest, AKilledHolderIsWaitedForWhileAChildOfItKeepsTheLock) {
  const pid_t child = holder(0, Child::kForked);
  end(child);
  EXPECT_THROW(RunLock(folder_, 0, {kShort, kShort}), Error) << "the wait is bounded";
  ::kill(grandchild(), SIGCONT);  // it ends
  const RunLock lock(folder_);
}

TEST_F(RunLockTest, ARankOfAFailingJobIsWaitedFor) {
  const pid_t child = holder(2);  // this process has only one of two ranks
  EXPECT_TRUE(is_ending(lock_holder_in(content())));
  std::thread killer([child] {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    ::kill(child, SIGKILL);
  });
  testing::internal::CaptureStdout();
  const RunLock lock(folder_);
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            text("waiting for {}, which is ending, to release '{}'\n", name_of(child), folder_));
  killer.join();
  ::waitpid(child, nullptr, 0);
}

TEST_F(RunLockTest, ARankOfAWholeJobIsNotWaitedFor) {
  const pid_t child = holder(1);
  EXPECT_THROW(RunLock(folder_, 0, {kShort, std::chrono::hours(1)}), Error);
  end(child);
}

TEST_F(RunLockTest, ARankIsEndingWhenItsLauncherIs) {
  const pid_t launcher = ::fork();
  if (launcher == 0) ::_exit(0);
  siginfo_t info = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(launcher), &info, WEXITED | WNOWAIT), 0);
  LockHolder holder = this_holder(0);
  EXPECT_FALSE(is_ending(holder));
  holder.launcher = launcher;
  EXPECT_TRUE(is_ending(holder)) << "a zombie";
  ::waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(is_ending(lock_holder_in(to_text(holder)))) << "gone";
  holder.host = "elsewhere";
  EXPECT_FALSE(is_ending(holder)) << "its processes are not visible here";
}

TEST_F(RunLockTest, ARemovedLockIsTakenAgain) {
  RunLock lock(folder_);
  const std::string before = content();
  for (const bool replaced : {false, true}) {
    std::filesystem::remove(folder_ + "/run.lock");
    if (replaced) std::ofstream(folder_ + "/run.lock") << "something else";
    testing::internal::CaptureStderr();
    lock.check();
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "warning: '" + folder_ +
                  "/run.lock' was removed or replaced during the run: the run folder is locked "
                  "again\n");
    lock.check();
    EXPECT_EQ(content(), before);
    EXPECT_THROW(RunLock::check_free(folder_, {kShort, kShort}), Error);
  }
}

TEST_F(RunLockTest, ARemovedLockThatAnotherProcessHasTakenLosesTheFolder) {
  RunLock lock(folder_);
  std::filesystem::remove(folder_ + "/run.lock");
  const pid_t child = holder();
  for (int i = 0; i < 2; ++i) {
    try {
      lock.check();
      FAIL() << "two holders";
    } catch (const LostFolderError& error) {
      EXPECT_EQ(error.code(), ExitCode::kInUse);
      EXPECT_EQ(std::string(error.what()),
                text("'{}' was removed or replaced during the run, and {} has taken over the run "
                     "folder",
                     folder_ + "/run.lock", name_of(child)));
      EXPECT_EQ(error.hint(), "wait for that process, or stop it, and start this run again");
    }
    if (i == 0) end(child);  // too late
  }
}

TEST_F(RunLockTest, AMovedOrRemovedFolderIsLost) {
  const std::string dir = folder_ + "/run";
  for (const char* what : {"moved", "removed", "replaced"}) {
    std::filesystem::create_directory(dir);
    RunLock lock(dir);
    const bool moved = what == std::string("moved");
    if (moved) std::filesystem::rename(dir, dir + "-2");
    if (!moved) std::filesystem::remove_all(dir);
    if (what == std::string("replaced")) std::filesystem::create_directory(dir);
    try {
      lock.check();
      ADD_FAILURE() << what;
    } catch (const LostFolderError& error) {
      EXPECT_EQ(error.code(), ExitCode::kIo);
      EXPECT_EQ(std::string(error.what()),
                moved ? "the run folder '" + dir + "' was moved to '" + dir + "-2' during the run"
                      : "the run folder '" + dir + "' was removed during the run");
      EXPECT_EQ(error.hint(), moved
                                  ? "its newest checkpoint is there: accel-run resume " + dir + "-2"
                                  : "its checkpoints are gone with it: start the run again");
    }
    EXPECT_FALSE(std::filesystem::exists(dir + "/run.lock"));
    std::filesystem::remove_all(dir);
  }
}

TEST_F(RunLockTest, APipeIsNotWaitedFor) {
  const std::string path = folder_ + "/run.lock";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  for (const auto& take : {std::function<void()>([this] { RunLock lock(folder_); }),
                           std::function<void()>([this] { RunLock::check_free(folder_); })}) {
    try {
      take();
      FAIL();
    } catch (const IoError& error) {
      EXPECT_EQ(std::string(error.what()), "'" + path + "' is not a regular file");
    }
  }
}

TEST_F(RunLockTest, ItIsFreeAgainOnceDestroyed) {
  { const RunLock first(folder_); }
  const RunLock second(folder_);
  EXPECT_THROW(RunLock third(folder_), Error);
}

TEST_F(RunLockTest, AHolderBetweenItsEntryAndTheReleaseIsWaitedFor) {
  auto first = std::make_unique<RunLock>(folder_);
  std::ofstream(folder_ + "/run.lock", std::ios::trunc).close();
  std::thread releaser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    first.reset();
  });
  const RunLock second(folder_, 0, {std::chrono::milliseconds(0), std::chrono::hours(1)});
  releaser.join();
}

TEST_F(RunLockTest, AHolderThatSaidNothingYetIsAnotherProcess) {
  const RunLock lock(folder_);
  std::ofstream(folder_ + "/run.lock", std::ios::trunc).close();
  try {
    const RunLock second(folder_, 0, {kShort, kShort});
    FAIL() << "two holders";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "run folder '" + folder_ + "' is in use by another process");
  }
}

TEST_F(RunLockTest, AskingChangesNothing) {
  RunLock::check_free(folder_);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  const pid_t child = holder();
  const std::string before = content();
  EXPECT_THROW(RunLock::check_free(folder_), Error);
  EXPECT_EQ(content(), before);
  end(child);
  RunLock::check_free(folder_);
  EXPECT_EQ(content(), before);
}

TEST_F(RunLockTest, WhoLetsGoTakesItsNameOut) {
  { const RunLock lock(folder_); }
  EXPECT_EQ(content(), "");
}

TEST_F(RunLockTest, OnlyAHolderOnAnotherMachineIsDoubtful) {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  const std::string here = "process 7 on host '" + std::string(host) + "'";
  const std::string there = "process 7 on host 'elsewhere'";
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"garbage\0\n\n\xff", ""},
      {here + "\nboot " + boot + "\n", ""},   // killed
      {here + "\nboot other\n", ""},          // gone with the machine
      {there + "\nboot " + boot + "\n", ""},  // another container of this machine
      {there + "\nboot other\n", there},
      {there, there},
  };
  for (const auto& [text, doubtful] : cases) {
    std::ofstream(folder_ + "/run.lock", std::ios::trunc) << text;
    const RunLock lock(folder_);
    EXPECT_EQ(lock.doubtful_holder(), doubtful) << text;
  }
}

TEST_F(RunLockTest, AMissingFolderIsAnIoError) {
  try {
    const RunLock lock(folder_ + "/none");
    FAIL() << "locked nothing";
  } catch (const IoError& error) {
    EXPECT_EQ(std::string(error.what()),
              "cannot create '" + folder_ + "/none/run.lock': No such file or directory");
  }
}

}  // namespace
}  // namespace accel::run_lock_test
