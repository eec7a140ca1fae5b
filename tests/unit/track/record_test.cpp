#include "track/record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::record_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

StepRecord step_at(int64_t step) {
  return {.step = step, .samples = step * 4, .loss = 0.5};
}

std::vector<int64_t> steps_in(const std::string& path) {
  std::vector<int64_t> steps;
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) steps.push_back(std::stoll(line.substr(line.find(':') + 1)));
  return steps;
}

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const IoError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(RunRecordTest, StepIsOneLineWithTheBitsOfItsLoss) {
  const TempFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  RunRecord record(path, 0);
  record.step({.step = 7,
               .epoch = 2,
               .samples = 448,
               .loss = 0.1,
               .grad_norm = 1e-300,
               .lr = 3e-4,
               .ids_digest = 0xabc});
  record.flush();
  EXPECT_EQ(file_content(path),
            "{\"step\":7,\"epoch\":2,\"samples\":448,\"loss\":0.1,"
            "\"loss_bits\":\"3fb999999999999a\",\"grad_norm\":1e-300,\"lr\":3e-04,"
            "\"ids\":\"0000000000000abc\"}\n");
}

TEST(RunRecordTest, NumbersThatJsonCannotHoldAreNullAndTheBitsTell) {
  const TempFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  RunRecord record(path, 0);
  record.step({.step = 1, .loss = -kInfinity, .grad_norm = std::nan(""), .skipped = true});
  record.flush();
  EXPECT_EQ(file_content(path),
            "{\"step\":1,\"epoch\":0,\"samples\":0,\"loss\":null,"
            "\"loss_bits\":\"fff0000000000000\",\"grad_norm\":null,\"lr\":0,"
            "\"ids\":\"0000000000000000\",\"skipped\":true}\n");
}

TEST(RunRecordTest, EvaluationAndLogAreObjectsOfTheirOwn) {
  const TempFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  RunRecord record(path, 0);
  const std::vector<Measurement> results = {{"eval/loss", 0.25}, {"eval/accuracy", 1}};
  record.evaluation(10, results);
  record.log(10, std::vector<Measurement>{{"time/data", 0.5}});
  record.log(11, {});
  record.flush();
  EXPECT_EQ(file_content(path),
            "{\"step\":10,\"eval\":{\"eval/loss\":0.25,\"eval/accuracy\":1}}\n"
            "{\"step\":10,\"log\":{\"time/data\":0.5}}\n"
            "{\"step\":11,\"log\":{}}\n");
}

TEST(RunRecordTest, WhatARunIsAndUsesIsNamed) {
  const TempFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  RunRecord record(path, 0);
  record.plan(0, std::vector<Measurement>{{"total_steps", 126}});
  record.about(0, {{"device", "cpu"}, {"host", "a \"b\""}});
  record.about(0, {});
  record.use(10, std::vector<Measurement>{{"time/data", 0.5}, {"memory_mib", 180.5}});
  record.flush();
  EXPECT_EQ(file_content(path),
            "{\"step\":0,\"plan\":{\"total_steps\":126}}\n"
            "{\"step\":0,\"about\":{\"device\":\"cpu\",\"host\":\"a \\\"b\\\"\"}}\n"
            "{\"step\":0,\"about\":{}}\n"
            "{\"step\":10,\"use\":{\"time/data\":0.5,\"memory_mib\":180.5}}\n");
}

TEST(RunRecordTest, EventHasATimeAndEscapedText) {
  const TempFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  RunRecord record(path, 0);
  record.event(0, "start", "a \"b\"\n\xff");
  record.flush();
  std::string line = file_content(path);
  for (char& c : line) {
    if (c >= '0' && c <= '9') c = '9';
  }
  EXPECT_EQ(line,
            "{\"step\":9,\"event\":\"start\",\"text\":\"a \\\"b\\\"\\n\xef\xbf\xbd\","
            "\"time\":\"9999-99-99T99:99:99Z\"}\n");
}

TEST(RunRecordTest, ResumeDropsWhatCameAfterTheCheckpointAndGoesOn) {
  const TempFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  {
    RunRecord record(path, 0);
    for (int64_t step = 1; step <= 120; ++step) record.step(step_at(step));
  }
  RunRecord record(path, 100);
  record.step(step_at(101));
  record.flush();
  const std::vector<int64_t> steps = steps_in(path);
  ASSERT_EQ(steps.size(), 101u);
  for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i], static_cast<int64_t>(i) + 1);
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
}

TEST(RunRecordTest, ResumeBeforeAPendingEvaluationDropsTheOneOfAKilledProcess) {
  const TempFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  const std::vector<Measurement> results = {{"eval/loss", 0.5}};
  const auto evaluate = [&](int64_t first_step, bool eval_pending) {
    RunRecord record(path, first_step, {}, eval_pending);
    record.evaluation(4, results);
    record.log(4, std::vector<Measurement>{{"data/share_1", 1}});
    record.flush();
  };
  {
    RunRecord record(path, 0);
    record.evaluation(2, results);
    record.log(4, std::vector<Measurement>{{"train/loss", 1}});
  }
  evaluate(4, true);
  evaluate(4, true);
  EXPECT_EQ(steps_in(path), (std::vector<int64_t>{2, 4, 4, 4}));
  evaluate(4, false);
  EXPECT_EQ(steps_in(path), (std::vector<int64_t>{2, 4, 4, 4, 4, 4}));
}

TEST(RunRecordTest, ResumeAtStepZeroStartsEmpty) {
  const TempFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  folder.write("metrics.jsonl", "{\"step\":0,\"event\":\"start\"}\n{\"step\":1,\"loss\":2}\n");
  RunRecord record(path, 0);
  EXPECT_EQ(file_content(path), "");
}

TEST(RunRecordTest, ResumeDropsTornAndUnreadableLines) {
  const std::string good = "{\"step\":3,\"loss\":1}\n";
  const std::string cases[] = {
      "{\"step\":4,\"loss\":0.",     // torn
      "{\"step\":4}",                // whole but for its newline
      "{\"step\":4,\"los\n",         // torn, then written over
      std::string("\0\0\0\0\n", 5),  // a power cut
      "{\"step\":99999999999999999999}\n",
      "{\"step\":}\n",
      "{\"step\":4x}\n",
      "\n",
      "nonsense\n",
  };
  for (const std::string& bad : cases) {
    const TempFolder folder;
    const std::string path = folder.path("metrics.jsonl");
    folder.write("metrics.jsonl", good + bad);
    RunRecord record(path, 9);
    EXPECT_EQ(file_content(path), good) << bad;
  }
}

TEST(RunRecordTest, FileWithNothingToDropIsNotRewritten) {
  const TempFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  folder.write("metrics.jsonl", "{\"step\":3,\"loss\":1}\n");
  const std::string other_name = folder.path("same_file");
  std::filesystem::create_hard_link(path, other_name);
  RunRecord record(path, 3);
  record.step(step_at(4));
  record.flush();
  EXPECT_EQ(file_content(path), file_content(other_name));
}

TEST(RunRecordTest, LeftoverOfACrashedRewriteDoesNoHarm) {
  const TempFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  folder.write("metrics.jsonl", "{\"step\":3,\"loss\":1}\n{\"step\":4,\"loss\":1}\n");
  folder.write("metrics.jsonl.new", "{\"step\":1,\"half\n");
  RunRecord record(path, 3);
  EXPECT_EQ(file_content(path), "{\"step\":3,\"loss\":1}\n");
}

TEST(RunRecordTest, FullDiskIsNamedWithItsPath) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const TempFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  std::filesystem::create_symlink("/dev/full", path);
  RunRecord record(path, 1);
  record.step(step_at(2));
  EXPECT_EQ(message_of([&] { record.flush(); }),
            "cannot write '" + path + "': No space left on device");
}

TEST(RunRecordTest, FolderThatIsAFileIsNamed) {
  const TempFolder folder;
  folder.write("occupied", "");
  EXPECT_EQ(message_of([&] { RunRecord(folder.path("occupied/metrics.jsonl"), 0); }),
            "cannot open '" + folder.path("occupied/metrics.jsonl") + "': Not a directory");
}

}  // namespace
}  // namespace accel::record_test
