#include "track/system_metrics.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <ctime>
#include <map>

namespace accel::system_metrics_test {
namespace {

std::map<std::string, double> measured(SystemMetrics& system) {
  std::map<std::string, double> values;
  for (const auto& [name, value] : system.measure()) values[name] = value;
  return values;
}

TEST(SystemMetricsTest, ABusyProcessIsSeen) {
  SystemMetrics system("/");
  volatile double sum = 0;
  const std::clock_t start = std::clock();
  while (std::clock() - start < CLOCKS_PER_SEC / 4) {
    for (int i = 0; i < 1000; ++i) sum = sum + i;
  }
  const std::vector<char> held(size_t{64} << 20, 'x');
  const auto values = measured(system);
  EXPECT_GT(values.at("system/cpu_percent"), 0);
  EXPECT_LT(values.at("system/cpu_percent"), 150);
  EXPECT_GT(values.at("system/memory_mib"), 64);
  EXPECT_GT(values.at("system/disk_free_gib"), 0);
  EXPECT_EQ(held.back(), 'x');
}

TEST(SystemMetricsTest, ThePeakStaysWhenMemoryGoes) {
  // Not from an allocator, which may keep what is freed.
  constexpr size_t kBytes = size_t{64} << 20;
  void* held = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(held, MAP_FAILED);
  std::memset(held, 'x', kBytes);
  munmap(held, kBytes);
  constexpr double kCountedLate = 4;  // MiB: the kernel adds up threads' pages now and then
  EXPECT_GT(peak_resident_mib().value(), resident_mib().value() + 64 - kCountedLate);
}

TEST(SystemMetricsTest, AFolderThatIsGoneIsLeftOut) {
  SystemMetrics system("/no/such/folder");
  EXPECT_FALSE(measured(system).contains("system/disk_free_gib"));
}

}  // namespace
}  // namespace accel::system_metrics_test
