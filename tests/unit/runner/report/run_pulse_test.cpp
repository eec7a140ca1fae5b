#include "runner/report/run_summary.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/unit/formats/temp_folder.h"

namespace accel::run_pulse_test {
namespace {

std::string here() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string this_start() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::string lock_of(long pid, const std::string& host, const std::string& boot) {
  return "process " + std::to_string(pid) + " on host '" + host + "'\nboot " + boot + "\n";
}

/// A number that no process has any more.
long gone_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

RunPulse pulse_of(const std::string& lock) {
  const TempFolder folder;
  folder.write("run.lock", lock);
  std::string holder;
  return run_pulse(folder.path(), holder);
}

TEST(RunPulseTest, HolderIsAskedForWhereItIs) {
  const long self = ::getpid();
  EXPECT_EQ(pulse_of(lock_of(self, here(), this_start())), RunPulse::kAlive);
  EXPECT_EQ(pulse_of(lock_of(gone_process(), here(), this_start())), RunPulse::kSilent);
  EXPECT_EQ(pulse_of(lock_of(self, here(), "another start")), RunPulse::kSilent);
  EXPECT_EQ(pulse_of(lock_of(self, "elsewhere", "another start")), RunPulse::kElsewhere);
  EXPECT_EQ(pulse_of(lock_of(gone_process(), "container", this_start())), RunPulse::kElsewhere);
}

TEST(RunPulseTest, NobodyHoldsWhatNobodySigned) {
  const TempFolder folder;
  std::string holder = "before";
  EXPECT_EQ(run_pulse(folder.path(), holder), RunPulse::kNobody);
  EXPECT_EQ(holder, "");
  for (const char* lock : {"", "something else\n"}) EXPECT_EQ(pulse_of(lock), RunPulse::kNobody);
}

TEST(RunPulseTest, NumberThatAnotherProcessHasByNowIsNotTheHolder) {
  const TempFolder folder;
  const std::string lock = folder.write("run.lock", lock_of(::getpid(), here(), this_start()));
  const auto long_ago =
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(48 * 365);
  std::filesystem::last_write_time(lock, long_ago);
  std::string holder;
  EXPECT_EQ(run_pulse(folder.path(), holder), RunPulse::kSilent);
  EXPECT_EQ(holder, "process " + std::to_string(::getpid()) + " on host '" + here() + "'");
}

}  // namespace
}  // namespace accel::run_pulse_test
