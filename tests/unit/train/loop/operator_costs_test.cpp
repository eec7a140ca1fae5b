#include "train/loop/operator_costs.h"

#include <gtest/gtest.h>

namespace accel::operator_costs_test {
namespace {

using Lines = std::vector<std::string>;

constexpr int64_t kMs = 1'000'000;

/// Milliseconds.
ProfiledCall call(const char* name, uint64_t lane, std::pair<int64_t, int64_t> times,
                  const char* device = "cpu", const char* shapes = "") {
  return {name, device, shapes, lane, times.first * kMs, times.second * kMs};
}

const std::vector<ProfiledCall> kCalls = {
    call("mm", 1, {3, 7}),       call("linear", 1, {0, 10}), call("add", 1, {8, 9}),
    call("linear", 1, {10, 12}), call("linear", 2, {0, 5}),  call("mm", 2, {4, 6}, "cuda"),
    call("empty", 1, {3, 4}),  // in mm, and begins with it
};

TEST(OperatorCostsTest, TimeOfItsOwnIsWithoutWhatItCalled) {
  const std::vector<OperatorCost> costs = operator_costs(kCalls);
  ASSERT_EQ(costs.size(), 5u);
  EXPECT_EQ(costs[0].name, "linear");
  EXPECT_EQ(costs[0].calls, 3);
  EXPECT_EQ(costs[0].self_ms, (10 - 4 - 1) + 2 + 5);
  EXPECT_EQ(costs[0].total_ms, 17);
  EXPECT_EQ(costs[1].name, "mm");
  EXPECT_EQ(costs[1].device, "cpu");
  EXPECT_EQ(costs[1].self_ms, 3);
  EXPECT_EQ(costs[1].total_ms, 4);
  EXPECT_EQ(costs[2].device, "cuda");
  EXPECT_EQ(costs[2].self_ms, 2);
}

TEST(OperatorCostsTest, ShapesTellCallsApart) {
  const auto costs = operator_costs({call("mm", 1, {0, 1}, "cpu", "[2, 3]"),
                                     call("mm", 1, {1, 5}, "cpu", "[4, 3]"),
                                     call("mm", 1, {5, 6}, "cpu", "[2, 3]")});
  ASSERT_EQ(costs.size(), 2u);
  EXPECT_EQ(costs[0].shapes, "[4, 3]");
  EXPECT_EQ(costs[1].calls, 2);
}

TEST(OperatorCostsTest, FileAndTerminalTellTheSame) {
  const auto costs = operator_costs({call("linear", 1, {0, 10}, "cpu", "[[2, 3], [3]]"),
                                     call("mm", 1, {2, 8}), call("kernel", 1, {0, 1}, "cuda")});
  EXPECT_EQ(operator_csv(costs),
            "operator,device,shapes,calls,self_ms,total_ms\n"
            "mm,cpu,,1,6.000,6.000\n"
            "linear,cpu,\"[[2, 3], [3]]\",1,4.000,10.000\n"
            "kernel,cuda,,1,1.000,1.000\n");
  const Lines lines = {"   self ms    self   total ms    calls  operator",
                       "     6.000  54.5 %      6.000        1  mm",
                       "     4.000  36.4 %     10.000        1  linear [[2, 3], [3]]",
                       "     1.000   9.1 %      1.000        1  kernel on cuda"};
  EXPECT_EQ(operator_lines(costs, 20), lines);
  EXPECT_EQ(operator_lines(costs, 2), Lines(lines.begin(), lines.begin() + 3));
  EXPECT_EQ(operator_lines({}, 2), Lines{lines.front()});
}

}  // namespace
}  // namespace accel::operator_costs_test
