#include "runner/plan/plan_text.h"
#include "runner/plan/number_text.h"

#include <gtest/gtest.h>

namespace accel::plan_text_test {
namespace {

TEST(PlanTextTest, Sizes) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.00 KiB");
  EXPECT_EQ(bytes_text(1536 << 10), "1.50 MiB");
  EXPECT_EQ(bytes_text(int64_t{123} << 30), "123 GiB");
  EXPECT_EQ(flop_text(999), "999 FLOP");
  EXPECT_EQ(flop_text(1.234e9), "1.23 GFLOP");
  EXPECT_EQ(flop_text(9.9996e11), "1.00 TFLOP");
}

PlanPage page() {
  Plan plan;
  plan.parameters = 1'234'567;
  plan.trained = 1000;
  plan.batches = {.batch = 64, .micro_batch = 8, .accumulation = 4, .world = 2};
  plan.data.shape.input = {1, 28, 28};
  plan.data.train_samples = 60'000;
  plan.data.eval_samples = 10'000;
  plan.flops = 844e6;
  const auto sends = [&](const char* purpose, int64_t bytes) {
    plan.traffic[{{2, 1}, purpose}] = {bytes, 1};
  };
  sends("gradients", 1 << 20);
  sends("parameters", 2 << 20);
  sends("loss", 16);
  sends("norm", 1008);
  plan.memory.weights = 2 << 20;
  plan.memory.gradients = 1 << 20;
  plan.memory.optimizer = 4 << 20;
  plan.memory.activations = 8 << 20;
  plan.memory.copy = 6 << 20;
  plan.checkpoint_bytes = 5 << 20;
  plan.checkpoints_kept = 3;
  plan.dataset_bytes = 12 << 20;
  plan.total_steps = 1876;
  plan.steps_per_epoch = 938;
  PlanPage page;
  page.name = "r.yaml";
  page.model = "mlp";
  page.plans = {plan};
  page.process = 100 << 20;
  page.available = 1 << 30;
  page.step_seconds = 0.05;
  return page;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(PlanTextTest, AMixtureHasALine) {
  PlanPage mixed = page();
  mixed.plans.front().data.mixture = "1 csv a, 2 csv b; 75 % : 25 %";
  const std::string text = joined(plan_lines(mixed));
  EXPECT_NE(text.find(" as model inputs\n  mixture    1 csv a, 2 csv b; 75 % : 25 %\n"), text.npos)
      << text;
}

TEST(PlanTextTest, StreamedWeightsHaveALine) {
  PlanPage streamed = page();
  streamed.plans.front().streaming = "16 blocks of 196.1 MiB from 'llama', 3 of them in memory";
  const std::string text = joined(plan_lines(streamed));
  EXPECT_NE(text.find("\n  streams    16 blocks of 196.1 MiB from 'llama', 3 of them in memory\n"
                      "  machine "),
            text.npos)
      << text;
}

TEST(PlanTextTest, APage) {
  EXPECT_EQ(joined(plan_lines(page())),
            "plan of r.yaml\n"
            "  model      mlp, 1,234,567 parameters, 1,000 trainable\n"
            "  data       60,000 samples of [1, 28, 28], eval 10,000; 12.0 MiB as model inputs\n"
            "  checkpoint 5.00 MiB, up to 3 at once: 15.0 MiB of disk\n"
            "  time       1:33, at 0.05 s per step as in the earlier run\n"
            "  machine    1.00 GiB of memory available\n"
            "                                            2 ranks\n"
            "batch = micro x accumulated x ranks  64 = 8 x 4 x 2\n"
            "steps                                         1,876\n"
            "steps per epoch                                 938\n"
            "compute per step, all ranks               844 MFLOP\n"
            "traffic per step and rank                  3.00 MiB\n"
            "  gradients                                1.00 MiB\n"
            "  parameters                               2.00 MiB\n"
            "  others                                   1.00 KiB\n"
            "memory per rank\n"
            "  weights                                  2.00 MiB\n"
            "  gradients                                1.00 MiB\n"
            "  optimizer state                          4.00 MiB\n"
            "  activations                              8.00 MiB\n"
            "  fragmentation                                 0 B\n"
            "  matmul workspace                              0 B\n"
            "  buckets and averages                          0 B\n"
            "  prefetched samples                            0 B\n"
            "  checkpoint snapshot                      6.00 MiB\n"
            "  the process itself                        100 MiB\n"
            "  total                                     121 MiB\n"
            "ranks that fit on this machine                    8\n"
            "fits\n");
}

TEST(PlanTextTest, WhatDoesNotFit) {
  PlanPage small = page();
  small.available = 110 << 20;
  EXPECT_FALSE(fits(small));
  EXPECT_EQ(plan_lines(small).back(),
            "does not fit with 2 ranks: a rank needs 121 MiB, 110 MiB are available");
  small.available = 0;
  EXPECT_TRUE(fits(small));
  EXPECT_EQ(plan_lines(small).back(), "  total                                     121 MiB");
}

TEST(PlanTextTest, APeakAtTheStart) {
  PlanPage sharded = page();
  sharded.plans[0].start_peak = 30 << 20;
  const std::vector<std::string> lines = plan_lines(sharded);
  EXPECT_EQ(lines[lines.size() - 2],
            "with 2 ranks memory peaks while the model is built: 30.0 MiB of tensors");
}

TEST(PlanTextTest, Advice) {
  EXPECT_EQ(joined(advice_lines({{{"a=1", "b=2"}, "it is slow", 1 << 20}})),
            "changes that make it fit, cheapest first:\n"
            "  a=1 b=2: 1.00 MiB, but it is slow\n");
  EXPECT_EQ(joined(advice_lines({})),
            "no change of batches, precision or optimizer makes it fit: use a smaller model or "
            "another machine\n");
}

}  // namespace
}  // namespace accel::plan_text_test
