#include "runner/report/report.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "tests/unit/runner/report/recorded_run.h"

namespace accel::profile_section_test {
namespace {

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

constexpr auto kOperators = "profile/steps_5_to_8/rank_0_operators.csv";
constexpr auto kHead = "operator,device,shapes,calls,self_ms,total_ms\n";

TEST(ProfileSectionTest, OperatorsAreATableOfTheReport) {
  const RecordedRun run;
  run.write(kOperators, std::string(kHead)
                            .append("aten::mm,cpu,\"[[2, 3], [3, 4]]\",12,30.000,31.500\n")
                            .append("<b>kernel,cuda,,3,10.000,10.000\n"));
  const std::string section = profile_section(run.dir());
  EXPECT_TRUE(holds(section,
                    "<tr><th>aten::mm</th><td data-column=\"device\">cpu</td>"
                    "<td data-column=\"shapes\">[[2, 3], [3, 4]]</td>"
                    "<td data-column=\"calls\">12</td><td data-column=\"self, ms\">30</td>"
                    "<td data-column=\"self, %\">75</td><td data-column=\"total, ms\">31.5</td>"
                    "</tr>"))
      << section;
  EXPECT_TRUE(holds(section,
                    "<th>&lt;b&gt;kernel</th><td data-column=\"device\">cuda</td>"
                    "<td data-column=\"shapes\"></td><td data-column=\"calls\">3</td>"))
      << section;
  EXPECT_FALSE(holds(section, "<svg"));
  EXPECT_TRUE(holds(run_page(read_run(run.dir())), "<h2>Profile of steps 5 to 8</h2>"));
}

TEST(ProfileSectionTest, MemoryIsDrawn) {
  const RecordedRun run;
  run.write(kOperators, std::string(kHead).append("aten::mm,cpu,,1,1.000,1.000\n"));
  run.write("profile/steps_5_to_8/rank_0_memory.csv",
            "microseconds,device,bytes\n0,cpu,1048576\n20,cpu,3145728\n900,cpu,0\n");
  const std::string section = profile_section(run.dir());
  EXPECT_TRUE(holds(section, "aria-label=\"MiB since the profile&#39;s start over \u00b5s\">"))
      << section;
  EXPECT_TRUE(holds(section, "<svg"));
}

TEST(ProfileSectionTest, TheNewestIsShownAndOthersAreNamed) {
  namespace fs = std::filesystem;
  const RecordedRun run;
  const auto now = fs::file_time_type::clock::now();
  int age = 0;
  for (const char* window : {"step_9", "steps_20_to_21", "steps_5_to_8", "step_40"}) {
    const std::string path = "profile/" + std::string(window) + "/rank_0_operators.csv";
    run.write(path, std::string(window) == "step_40"
                        ? "torn"
                        : std::string(kHead) + window + ",cpu,,1,1.000,1.000\n");
    fs::last_write_time(run.dir() + "/" + path, now - std::chrono::hours(age++));
  }
  const std::string section = profile_section(run.dir());
  EXPECT_TRUE(holds(section, "<h2>Profile of step 9</h2>")) << section;
  EXPECT_TRUE(holds(section, "<th>step_9</th>")) << section;
  EXPECT_TRUE(holds(section, "<p>Earlier profiles in profile/: steps 20 to 21, steps 5 to 8</p>"))
      << section;
  EXPECT_FALSE(holds(section, "<th>steps_5_to_8</th>")) << section;
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
}  // namespace accel::profile_section_test
