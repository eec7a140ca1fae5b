#include "train/loop/step_profile.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/formats/temp_folder.h"

namespace accel::step_profile_test {
namespace {

bool watched() {
  return at::hasCallbacks();
}

void make_steps(StepProfile& profile, int64_t first, int64_t last) {
  const at::Tensor matrix = at::ones({8, 8});
  for (int64_t step = first; step <= last; ++step) {
    profile.before(step);
    at::mm(matrix, matrix);
    profile.after(step);
  }
}

/// Calls of aten::mm in the table of rank 3, by their shapes.
std::string products(const TempFolder& folder, const std::string& window) {
  std::ifstream in(folder.path("profile/" + window + "/rank_3_operators.csv"));
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("aten::mm,")) return line.substr(0, line.rfind(',', line.rfind(',') - 1));
  }
  return "";
}

TEST(StepProfileTest, OnlyTheStepsOfTheWindowAreWatched) {
  const TempFolder folder;
  StepProfile profile({.steps = {3, 4}}, folder.path(), 3, at::kCPU);
  make_steps(profile, 1, 2);
  EXPECT_FALSE(watched());
  make_steps(profile, 3, 3);
  EXPECT_TRUE(watched());
  make_steps(profile, 4, 4);
  EXPECT_FALSE(watched());
  make_steps(profile, 5, 6);
  profile.finish();
  EXPECT_EQ(products(folder, "steps_3_to_4"), "aten::mm,cpu,,2");
  const std::string start = folder.path("profile/steps_3_to_4/rank_3");
  EXPECT_TRUE(std::filesystem::exists(start + ".json"));
  EXPECT_FALSE(std::filesystem::exists(start + "_memory.csv"));
}

TEST(StepProfileTest, ShapesAndMemoryAreThereWhenAskedFor) {
  const TempFolder folder;
  StepProfile profile({.steps = {1}, .shapes = true, .memory = true}, folder.path(), 3, at::kCPU);
  make_steps(profile, 1, 2);
  EXPECT_EQ(products(folder, "step_1"), "aten::mm,cpu,\"[[8, 8], [8, 8]]\",1");
  std::ifstream in(folder.path("profile/step_1/rank_3_memory.csv"));
  std::string head, first;
  std::getline(in, head);
  std::getline(in, first);
  EXPECT_EQ(head, "microseconds,device,bytes");
  EXPECT_EQ(first, "0,cpu,256");  // a product of 8 x 8 floats
}

TEST(StepProfileTest, AnEndWithinTheWindowKeepsWhatThereIs) {
  const TempFolder folder;
  StepProfile profile({.steps = {1, 100}}, folder.path(), 3, at::kCPU);
  make_steps(profile, 5, 6);  // a resumed run
  EXPECT_TRUE(watched());
  profile.finish();
  EXPECT_FALSE(watched());
  EXPECT_EQ(products(folder, "steps_5_to_6"), "aten::mm,cpu,,2");
}

TEST(StepProfileTest, AResumedRunLeavesWhatTheFirstPartWrote) {
  const TempFolder folder;
  for (const int64_t first : {5, 7}) {
    StepProfile profile({.steps = {1, 100}}, folder.path(), 3, at::kCPU);
    make_steps(profile, first, 7);
    profile.finish();
  }
  EXPECT_EQ(products(folder, "steps_5_to_7"), "aten::mm,cpu,,3");
  EXPECT_EQ(products(folder, "step_7"), "aten::mm,cpu,,1");
}

TEST(StepProfileTest, AFailureWithinTheWindowEndsTheWatch) {
  const TempFolder folder;
  {
    StepProfile profile({.steps = {1, 100}}, folder.path(), 3, at::kCPU);
    profile.before(1);
    EXPECT_TRUE(watched());
  }
  EXPECT_FALSE(watched());
  EXPECT_FALSE(std::filesystem::exists(folder.path("profile")));
}

TEST(StepProfileTest, FilesThatCannotBeWrittenAreAWarning) {
  const TempFolder folder;
  folder.write("profile", "no folder can be here");
  StepProfile profile({.steps = {1}}, folder.path(), 3, at::kCPU);
  testing::internal::CaptureStderr();
  make_steps(profile, 1, 1);
  EXPECT_TRUE(testing::internal::GetCapturedStderr().starts_with(
      "warning: the profile cannot be written: "));
}

TEST(StepProfileTest, ATraceThatCannotBeWrittenIsNamed) {
  const TempFolder folder;
  const std::string trace = folder.path("profile/step_1/rank_3.json");
  std::filesystem::create_directories(trace + "/in_the_way");
  StepProfile profile({.steps = {1}}, folder.path(), 3, at::kCPU);
  testing::internal::CaptureStderr();
  make_steps(profile, 1, 1);
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_NE(printed.find("warning: the profile cannot be written: cannot write '" + trace + "'\n"),
            printed.npos)
      << printed;
}

TEST(StepProfileTest, ARunThatEndsBeforeTheStepsIsAWarning) {
  const auto warning = [](int64_t rank, int64_t last) {
    testing::internal::CaptureStderr();
    StepProfile({.steps = {10, 12}}, "none", rank, at::kCPU).warn_if_missed(last);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(warning(0, 10), "");
  EXPECT_EQ(warning(1, 4), "");
  EXPECT_EQ(
      warning(0, 4),
      "warning: no profile: the run ended after step 4, but 'profile.steps' begins at step 10\n");
}

TEST(StepProfileTest, WithoutStepsNothingHappens) {
  const TempFolder folder;
  StepProfile profile({}, folder.path(), 3, at::kCPU);
  make_steps(profile, 1, 3);
  profile.finish();
  EXPECT_FALSE(std::filesystem::exists(folder.path("profile")));
}

}  // namespace
}  // namespace accel::step_profile_test
