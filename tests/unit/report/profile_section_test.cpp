#include "runner/report/profile_section.h"

#include <gtest/gtest.h>

#include "runner/report/run_page.h"
#include "tests/unit/report/recorded_run.h"

namespace accel {
namespace {

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

constexpr auto kOperators = "profile/rank_0_operators.csv";
constexpr auto kHead = "operator,device,shapes,calls,self_ms,total_ms\n";

TEST(ProfileSectionTest, OperatorsAreATableOfTheReport) {
  const RecordedRun run;
  run.write(kOperators, std::string(kHead)
                            .append("aten::mm,cpu,\"[[2, 3], [3, 4]]\",12,30.000,31.500\n")
                            .append("<b>kernel,cuda,,3,10.000,10.000\n"));
  const std::string section = profile_section(run.dir());
  EXPECT_TRUE(holds(section,
                    "<tr><th>aten::mm</th><td>cpu</td><td>[[2, 3], [3, 4]]</td><td>12</td>"
                    "<td>30</td><td>75</td><td>31.5</td></tr>"))
      << section;
  EXPECT_TRUE(holds(section,
                    "<th>&lt;b&gt;kernel</th><td>cuda</td><td></td><td>3</td><td>10</td>"
                    "<td>25</td>"))
      << section;
  EXPECT_FALSE(holds(section, "<svg"));
  EXPECT_TRUE(holds(run_page(read_run(run.dir())), "<h2>Profile</h2>"));
}

TEST(ProfileSectionTest, MemoryIsDrawn) {
  const RecordedRun run;
  run.write(kOperators, std::string(kHead).append("aten::mm,cpu,,1,1.000,1.000\n"));
  run.write("profile/rank_0_memory.csv",
            "microseconds,device,bytes\n0,cpu,1048576\n20,cpu,3145728\n900,cpu,0\n");
  const std::string section = profile_section(run.dir());
  EXPECT_TRUE(holds(section, "MiB since the profile&#39;s start, over microseconds")) << section;
  EXPECT_TRUE(holds(section, "<svg"));
}

TEST(ProfileSectionTest, OnlyTheCostliestAreShown) {
  const RecordedRun run;
  std::string text = kHead;
  for (int i = 0; i < 30; ++i) text += "op" + std::to_string(i) + ",cpu,,1,1.000,1.000\n";
  run.write(kOperators, text);
  const std::string section = profile_section(run.dir());
  EXPECT_TRUE(holds(section, "<th>op24</th>"));
  EXPECT_FALSE(holds(section, "<th>op25</th>"));
}

TEST(ProfileSectionTest, WhatCannotBeReadIsLeftOut) {
  const RecordedRun run;
  EXPECT_EQ(profile_section(run.dir()), "");
  for (const char* text : {"", "\"", "a,b\n1,2\n", kHead}) {
    run.write(kOperators, text);
    EXPECT_EQ(profile_section(run.dir()), "") << text;
  }
}

}  // namespace
}  // namespace accel
