#include "runner/launch/memory_limits.h"

#include <gtest/gtest.h>

#include "tests/unit/formats/temp_folder.h"

namespace accel::oom_watch_test {
namespace {

struct Case {
  const char* name;
  const char* groups;   ///< /proc/self/cgroup
  const char* counter;  ///< the file that counts
  const char* before;
  const char* after;
};

const Case kCases[] = {
    {"Cgroup2", "0::/job\n", "sys/fs/cgroup/job/memory.events", "low 3\noom_kill 1\n",
     "low 3\noom_kill 2\n"},
    {"Cgroup1", "5:cpu:/x\n4:hugetlb,memory:/job\n0::/\n",
     "sys/fs/cgroup/memory/job/memory.oom_control", "under_oom 0\noom_kill 0\n",
     "under_oom 0\noom_kill 1\n"},
    {"Machine", "0::/\n", "proc/vmstat", "nr_free 7\noom_kill 4\n", "nr_free 7\noom_kill 5\n"},
};

TEST(OomWatchTest, SeesKillsThatCameLater) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    const TempFolder root;
    root.write("proc/self/cgroup", one.groups);
    root.write("proc/vmstat", "oom_kill 9\n");
    root.write(one.counter, one.before);
    const OomWatch watch(root.path());
    EXPECT_FALSE(watch.killed());
    root.write(one.counter, one.after);
    EXPECT_TRUE(watch.killed());
  }
}

TEST(OomWatchTest, SeesNothingWhereNothingCounts) {
  const TempFolder root;
  EXPECT_FALSE(OomWatch(root.path()).killed());
  EXPECT_FALSE(OomWatch().killed());
}

}  // namespace
}  // namespace accel::oom_watch_test
