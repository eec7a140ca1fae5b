#include "runner/plan/step_time.h"

#include <gtest/gtest.h>

#include "parallel/pipeline/simulate.h"

namespace accel::step_time_test {
namespace {

/// One FLOP takes 1 s, a byte of memory 1 s, of the link 1 s and of the network 10 s, at the shares
/// that are reached.
Hardware slow() {
  Hardware hardware;
  hardware.flops_fp32 = 1 / 0.7;
  hardware.flops_16bit = 4 / 0.7;
  hardware.memory_bandwidth = 1 / 0.85;
  hardware.link = 1 / 0.75;
  hardware.network = 0.1 / 0.75;
  hardware.ranks_per_machine = 4;
  return hardware;
}

Plan plan_of(const MeshSizes& mesh, int64_t micro_batches) {
  Plan plan;
  plan.mesh = mesh;
  plan.batches.accumulation = micro_batches;
  plan.batches.world = mesh.data();
  plan.rank_flops = 600;
  plan.moved_bytes = 300;
  return plan;
}

constexpr double kNear = 1e-3;  // latencies

TEST(StepTimeTest, OneRank) {
  Plan plan = plan_of({}, 3);
  plan.memory.weights = 10;
  plan.memory.gradients = 1;
  plan.memory.optimizer = 100;
  const StepTime time = estimate_step(plan, slow(), {});
  EXPECT_NEAR(time.compute, 900, kNear);
  EXPECT_NEAR(time.optimizer, 221, kNear);
  EXPECT_NEAR(time.total(), 1121, kNear);
  EXPECT_NEAR(estimate_step(plan, slow(), {.is_16bit = true}).compute, 450, kNear);
}

TEST(StepTimeTest, CommunicationInsideLayersWaits) {
  Plan plan = plan_of({.replicate = 2, .tensor = 4}, 3);
  plan.traffic[{{4, 1}, "activations of tensor parallelism"}] = {60, 6};
  EXPECT_NEAR(estimate_step(plan, slow(), {}).layers, 60, kNear);
  // Over two machines of four ranks: a ring with four channels.
  Plan wide = plan_of({.tensor = 8}, 3);
  wide.traffic[{{8, 1}, "activations of tensor parallelism"}] = {60, 6};
  EXPECT_NEAR(estimate_step(wide, slow(), {}).layers, 150, kNear);
}

TEST(StepTimeTest, TheLowerBoundLeavesOutWhatDependsOnTheDataParallelAxes) {
  Plan plan = plan_of({.replicate = 2, .tensor = 4}, 3);
  plan.memory.weights = 10;
  plan.traffic[{{4, 1}, "activations of tensor parallelism"}] = {60, 6};
  plan.traffic[{{4, 1}, "gradients"}] = {40, 6};
  plan.traffic[{{2, 4}, "gradients"}] = {1000, 1};
  EXPECT_NEAR(least_step_seconds(plan, slow(), {}), 660, kNear);
  EXPECT_NEAR(least_step_seconds(plan, slow(), {.is_16bit = true}), 150 + 60, kNear);
  EXPECT_GT(estimate_step(plan, slow(), {}).total(), 960 + 40);
}

/// The ranks of cp sum gradients too, and experts are divided over data parallel ranks.
TEST(StepTimeTest, ThePurposeTellsActivationsFromGradientsOfTheSameRanks) {
  Plan plan = plan_of({.context = 4}, 3);
  plan.traffic[{{4, 1}, "keys and values of context parallelism"}] = {60, 6};
  plan.traffic[{{4, 1}, "gradients"}] = {250, 1};
  const StepTime time = estimate_step(plan, slow(), {});
  EXPECT_NEAR(time.layers, 60, kNear);
  EXPECT_NEAR(time.data_parallel, 250 - 2.0 / 3 * 960 / 3, kNear) << "beyond a backward pass";
  Plan experts = plan_of({.replicate = 4, .expert = 4}, 3);
  experts.traffic[{{4, 1}, "tokens of experts"}] = {60, 6};
  EXPECT_NEAR(estimate_step(experts, slow(), {}).layers, 60, kNear);
}

TEST(StepTimeTest, DataParallelCommunicationOverlapsTheMicroBatchesThatItServes) {
  const TrafficKey gradients{{8, 4}, "gradients"};  // one rank of each machine: 10 s a byte
  const auto exposed = [&](int64_t once, int64_t each) {
    Plan plan = plan_of({.shard = 8, .tensor = 4}, 3);
    plan.traffic[gradients] = {once + 3 * each, 4};
    plan.micro_batch_traffic[gradients] = {each, 1};
    return estimate_step(plan, slow(), {}).data_parallel;
  };
  EXPECT_EQ(exposed(19, 0), 0) << "a backward pass takes 200 s";
  EXPECT_NEAR(exposed(25, 0), 50, kNear);
  EXPECT_EQ(exposed(0, 29), 0) << "all passes take 900 s";
  EXPECT_NEAR(exposed(0, 31), 30, 2 * kNear);
}

TEST(StepTimeTest, ManyMachinesAreSlowByTheirNumberToo) {
  const TrafficKey key{{4096, 1}, "parameters"};
  Plan plan = plan_of({.shard = 4096}, 1);
  plan.rank_flops = plan.moved_bytes = 0;
  plan.traffic[key] = {0, 100};
  EXPECT_NEAR(estimate_step(plan, slow(), {}).data_parallel, 100 * (1023 * 10e-6 + 3 * 3e-6), 1e-9);
}

TEST(StepTimeTest, ThePipelineIsSimulated) {
  Plan plan = plan_of({.pipeline = 2}, 4);
  PlannedPipeline& pipeline = plan.pipeline.emplace();
  const PipelineLayout layout{.ranks = 2};
  pipeline.schedule = make_pipeline_schedule(PipelineKind::k1F1B, layout, 4);
  pipeline.relative_costs = {1, 1};
  const double pass = 900.0 / 4;
  EXPECT_NEAR(estimate_step(plan, slow(), {}).bubble,
              bubble_formula(PipelineKind::k1F1B, layout, {pass / 3, pass / 3, pass / 3}), kNear);
  pipeline.relative_costs = {1, 2};
  EXPECT_GT(estimate_step(plan, slow(), {}).bubble, 900) << "the slower stage decides";
  pipeline.relative_costs = {1, 1};
  const double without = estimate_step(plan, slow(), {}).total();
  plan.traffic[{{2, 1}, "activation of stage 1"}] = {40, 4};
  EXPECT_NEAR(estimate_step(plan, slow(), {}).total() - without, 40, kNear)
      << "of the messages of 10 s two are waited for at the ends, and two between";
}

}  // namespace
}  // namespace accel::step_time_test
