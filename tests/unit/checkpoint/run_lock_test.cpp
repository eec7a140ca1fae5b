// One job per run folder, also across processes and after a kill.
#include "checkpoint/run_lock.h"

#include <gtest/gtest.h>

#include <functional>

#include <csignal>
#include <filesystem>
#include <fstream>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.h"

namespace accel::run_lock_test {
namespace {

class RunLockTest : public testing::Test {
 protected:
  RunLockTest() {
    std::string pattern = testing::TempDir() + "run_lock_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~RunLockTest() override { std::filesystem::remove_all(folder_); }

  /// Forks a process that holds the lock until it is killed.
  pid_t holder() const {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const RunLock lock(folder_);
      EXPECT_EQ(::write(ready[1], "x", 1), 1);
      ::pause();
      ::_exit(0);
    }
    char byte;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
    return child;
  }

  std::string content() const {
    std::ifstream in(folder_ + "/run.lock");
    return {std::istreambuf_iterator<char>(in), {}};
  }

  static void end(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  std::string folder_;
};

TEST_F(RunLockTest, ASecondHolderIsToldWhoHasIt) {
  const pid_t child = holder();
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  try {
    const RunLock lock(folder_);
    FAIL() << "two holders";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
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

TEST_F(RunLockTest, AHolderThatSaidNothingYetIsAnotherProcess) {
  const RunLock lock(folder_);
  std::ofstream(folder_ + "/run.lock", std::ios::trunc).close();
  try {
    const RunLock second(folder_);
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
