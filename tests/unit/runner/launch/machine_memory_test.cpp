#include "runner/launch/memory_limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace accel::machine_memory_test {
namespace {

namespace fs = std::filesystem;

class MachineMemoryTest : public testing::Test {
 protected:
  MachineMemoryTest() : root_(fs::path(testing::TempDir()) / "machine_memory") {
    fs::remove_all(root_);
    write("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:      1000 kB\n");
  }
  ~MachineMemoryTest() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  int64_t available(int64_t processes = 1) const {
    return available_memory(processes, root_.string());
  }

  fs::path root_;
};

TEST_F(MachineMemoryTest, WhatTheMachineHas) {
  EXPECT_EQ(available(), 1000 << 10);
  fs::remove_all(root_);
  EXPECT_EQ(available(), 0);
}

TEST_F(MachineMemoryTest, TheNarrowestOfTheGroupsAround) {
  write("proc/self/cgroup", "0::/jobs/one\n");
  write("sys/fs/cgroup/jobs/one/memory.max", "max\n");
  write("sys/fs/cgroup/jobs/one/memory.current", "5000\n");
  EXPECT_EQ(available(), 1000 << 10);
  write("sys/fs/cgroup/jobs/memory.max", "90000\n");
  write("sys/fs/cgroup/jobs/memory.current", "70000\n");
  EXPECT_EQ(available(), 20000);
  write("sys/fs/cgroup/jobs/memory.current", "95000\n");
  EXPECT_EQ(available(), 0);
}

TEST_F(MachineMemoryTest, GroupsOfTheFirstVersion) {
  write("proc/self/cgroup", "3:cpu,cpuacct:/c\n2:hugetlb,memory:/job\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "500000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "100000\n");
  EXPECT_EQ(available(), 400000);
}

TEST_F(MachineMemoryTest, LimitsOfAProcess) {
  write("proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max data size             400000               unlimited            bytes     \n"
        "Max address space         unlimited            unlimited            bytes     \n");
  write("proc/self/status", "Name:\taccel-run\nVmSize:\t     300 kB\nVmData:\t     100 kB\n");
  EXPECT_EQ(available(), 400000 - (100 << 10));
  EXPECT_EQ(available(2), 2 * (400000 - (100 << 10)));
  EXPECT_EQ(available(9), 1000 << 10) << "no more than the machine's";
  write("proc/self/limits",
        "Max data size  unlimited  unlimited  bytes\n"
        "Max address space  350000  unlimited  bytes\n");
  EXPECT_EQ(available(), 350000 - (300 << 10));
}

}  // namespace
}  // namespace accel::machine_memory_test
