// What a step allocates once training is under way. A separate program: it replaces operator new.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "bench/count_steps.h"
#include "tests/unit/data/array_files.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/job/make_job.h"
#include "track/record.h"
#include "train/loop/run.h"

namespace accel::steady_step_test {
namespace {

constexpr int64_t kFirst = 20;
constexpr int64_t kSteps = 20;

/// A step's, by the thread that trains. Neither log nor save is due.
double own_allocations(const std::string& data) {
  const TempFolder folder;
  const auto job = make_job(
      "model: {type: mlp, hidden_sizes: [8]}\n"
      "data: " +
      data +
      "\n"
      "optimizer: {type: adamw, lr: 0.001}\n"
      "train: {until: 50 steps, batch: 4}\n"
      "log: {every: never}\n"
      "checkpoint: {every: never, at_end: false}\n");
  Allocations found;
  count_steps(*job, kFirst, kFirst + kSteps, found);
  RunRequest request;
  request.run_dir = folder.path("run");
  EXPECT_EQ(run_job(*job, request), ExitCode::kDone);
  return static_cast<double>(found.own) / kSteps;
}

TEST(SteadyStepTest, TheCounterSeesWhatIsAllocatedHere) {
  Allocations found;
  {
    const CountAllocations counting(found);
    const auto memory = std::make_unique<std::array<char, 100>>();
    EXPECT_NE(memory, nullptr);
  }
  EXPECT_EQ(found.own, 1);
  EXPECT_EQ(found.all, 1);
  EXPECT_EQ(found.sites.size(), 1U);
}

TEST(SteadyStepTest, ALineOfTheRecordTakesNone) {
  const TempFolder folder;
  RunRecord record(folder.path("metrics.jsonl"), 0);
  const auto write = [&](int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      record.step({.step = step, .samples = 64 * step, .loss = 1.0 / 3, .grad_norm = 2.0 / 3});
    }
  };
  write(1, 1000);  // its buffer was full once
  Allocations found;
  {
    const CountAllocations counting(found);
    write(1001, 2000);
  }
  EXPECT_EQ(found.all, 0);
}

/// Whether an order came is looked up by the clock, behind some of the steps.
TEST(SteadyStepTest, AStepAllocatesNothing) {
  EXPECT_LT(own_allocations("{train: {type: synthetic/glyphs, length: 1024}, "
                            "loader: {workers: 1}}"),
            1);
}

/// Arrays in memory need no worker for it.
TEST(SteadyStepTest, AStepThatReadsItsBatchAllocatesNothing) {
  const TempFolder folder;
  folder.write("x.npy", npy_file<uint8_t>("|u1", "(64, 6)", std::vector<uint8_t>(64 * 6, 7)));
  folder.write("y.npy", npy_file<int64_t>("<i8", "(64,)", std::vector<int64_t>(64, 1)));
  EXPECT_LT(own_allocations("{train: {type: npy, scale: true, inputs: " + folder.path("x.npy") +
                            ", targets: " + folder.path("y.npy") + "}, loader: {workers: 0}}"),
            1);
}

}  // namespace
}  // namespace accel::steady_step_test
