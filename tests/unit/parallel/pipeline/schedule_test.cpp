#include "parallel/pipeline/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "parallel/pipeline/check.h"
#include "parallel/pipeline/simulate.h"

namespace accel {
namespace {

using Lines = std::vector<std::string>;

constexpr PipelineKind kKinds[] = {PipelineKind::kGpipe, PipelineKind::k1F1B,
                                   PipelineKind::kInterleaved1F1B, PipelineKind::kZbH1,
                                   PipelineKind::kZbV};

bool allows(PipelineKind kind, int64_t stages_per_rank) {
  if (kind == PipelineKind::kZbV) return stages_per_rank == 2;
  return (kind == PipelineKind::kInterleaved1F1B) == (stages_per_rank > 1);
}

/// Calls `test(kind, layout)` for up to 8 ranks and 4 stages of each.
template <class Test>
void for_each_layout(const Test& test) {
  for (const PipelineKind kind : kKinds) {
    for (int64_t ranks = 1; ranks <= 8; ++ranks) {
      for (int64_t stages = 1; stages <= 4; ++stages) {
        if (allows(kind, stages)) test(kind, pipeline_layout(kind, ranks, stages));
      }
    }
  }
}

std::vector<PassCosts> equal_costs(const PipelineLayout& layout, const PassCosts& costs) {
  return std::vector<PassCosts>(static_cast<size_t>(layout.stages()), costs);
}

std::string fault_of(const PipelineSchedule& schedule, int64_t most = 100) {
  const std::vector<int64_t> all(static_cast<size_t>(schedule.layout.ranks), most);
  return find_fault(schedule, all).value_or("");
}

PipelineSchedule schedule_of(PipelineKind kind, int64_t ranks, int64_t micro_batches) {
  return make_pipeline_schedule(kind, pipeline_layout(kind, ranks, 1), micro_batches);
}

size_t position(const PipelineSchedule& schedule, size_t rank, const PipelineAction& action) {
  const auto& actions = schedule.ranks[rank];
  return static_cast<size_t>(std::find(actions.begin(), actions.end(), action) - actions.begin());
}

TEST(PipelineScheduleTest, EveryScheduleIsCompleteWithoutDeadlockAndWithinItsMemory) {
  int64_t checked = 0;
  for_each_layout([&](PipelineKind kind, const PipelineLayout& layout) {
    for (int64_t micro_batches = 0; micro_batches <= 32; ++micro_batches) {
      const auto schedule = make_pipeline_schedule(kind, layout, micro_batches);
      EXPECT_NO_THROW(check_pipeline_schedule(kind, schedule))
          << layout.ranks << " " << layout.stages_per_rank << " " << micro_batches;
      ++checked;
    }
  });
  EXPECT_EQ(checked, 7 * 8 * 33);
}

TEST(PipelineScheduleTest, TheMemoryBoundIsReached) {
  for_each_layout([&](PipelineKind kind, const PipelineLayout& layout) {
    const auto schedule = make_pipeline_schedule(kind, layout, 4 * layout.ranks);
    std::vector<int64_t> less;
    for (int64_t rank = 0; rank < layout.ranks; ++rank) {
      less.push_back(most_alive(kind, layout, 4 * layout.ranks, rank) - 1);
    }
    EXPECT_TRUE(find_fault(schedule, less)) << layout.ranks << " " << layout.stages_per_rank;
  });
}

TEST(PipelineScheduleTest, TheSimulatedBubbleIsThatOfThePapers) {
  for_each_layout([&](PipelineKind kind, const PipelineLayout& layout) {
    for (const PassCosts& costs : {PassCosts{1, 1, 1}, PassCosts{1, 1.25, 0.75}, {1, 2, 1}}) {
      if (kind == PipelineKind::kZbV && costs.backward_input != 1) continue;
      for (int64_t micro_batches = 2 * layout.ranks; micro_batches <= 32; ++micro_batches) {
        if (layout.stages_per_rank > 2 && micro_batches % layout.ranks != 0) continue;
        if (kind == PipelineKind::kInterleaved1F1B && micro_batches % layout.ranks != 0) continue;
        const auto schedule = make_pipeline_schedule(kind, layout, micro_batches);
        const PipelineTimes times = simulate(schedule, equal_costs(layout, costs));
        EXPECT_NEAR(times.bubble(), bubble_formula(kind, layout, costs), 1e-9)
            << layout.ranks << " " << layout.stages_per_rank << " " << micro_batches;
      }
    }
  });
}

TEST(PipelineScheduleTest, MessagesDelayTheStagesThatWaitForThem) {
  const PipelineSchedule schedule = schedule_of(PipelineKind::kGpipe, 4, 8);
  const auto costs = equal_costs(schedule.layout, {1, 1, 1});
  const PipelineTimes times = simulate(schedule, costs, 0.5);
  EXPECT_DOUBLE_EQ(times.bubble(), 3 * 3 + 6 * 0.5);
  EXPECT_DOUBLE_EQ(times.makespan(), 8 * 3 + 3 * 3 + 6 * 0.5);
  EXPECT_DOUBLE_EQ(times.bubble_share(), 12.0 / 36.0);
}

TEST(PipelineScheduleTest, ForwardSchedulesRunEveryStage) {
  for_each_layout([&](PipelineKind kind, const PipelineLayout& layout) {
    for (const int64_t micro_batches : {0, 1, 5, 16}) {
      const PipelineSchedule schedule = forward_schedule(layout, micro_batches);
      const PipelineTimes times = simulate(schedule, equal_costs(layout, {1, 1, 1}));
      for (const auto& passes : times.ranks) {
        EXPECT_EQ(passes.size(), static_cast<size_t>(micro_batches * layout.stages_per_rank));
      }
      if (kind != PipelineKind::k1F1B || micro_batches == 0) continue;
      EXPECT_DOUBLE_EQ(times.makespan(), static_cast<double>(micro_batches + layout.ranks - 1));
    }
  });
}

TEST(PipelineScheduleTest, AFoldedPipelineReturnsToTheFirstRank) {
  const PipelineLayout layout = pipeline_layout(PipelineKind::kZbV, 3, 2);
  std::vector<int64_t> ranks;
  for (int64_t stage = 0; stage < layout.stages(); ++stage) ranks.push_back(layout.rank_of(stage));
  EXPECT_EQ(ranks, (std::vector<int64_t>{0, 1, 2, 2, 1, 0}));
  EXPECT_FALSE(layout.sends_after(2));
  for (const auto& actions : make_pipeline_schedule(PipelineKind::kZbV, layout, 4).ranks) {
    for (const PipelineAction& action : actions) {
      if (!is_message(action.kind)) continue;
      const PipelineMessage message = message_of(layout, action);
      EXPECT_NE(message.from, message.to) << to_string(action);
    }
  }
}

TEST(PipelineScheduleTest, DrawsOneLineForEachRank) {
  EXPECT_EQ(draw_pipeline(schedule_of(PipelineKind::k1F1B, 2, 3), 80),
            (Lines{"rank 0  F0 F1       B0--- F2 B1---    B2---",
                   "rank 1     F0 B0--- F1 B1--- F2 B2---"}));
  EXPECT_EQ(
      draw_pipeline(schedule_of(PipelineKind::kZbH1, 2, 3), 80),
      (Lines{"rank 0  F0 F1    I0 W0 F2 I1 W1 I2 W2", "rank 1     F0 I0 F1 I1 W0 F2 I2 W1 W2"}));
  const PipelineLayout two = pipeline_layout(PipelineKind::kInterleaved1F1B, 2, 2);
  EXPECT_EQ(draw_pipeline(make_pipeline_schedule(PipelineKind::kInterleaved1F1B, two, 2), 30),
            (Lines{"rank 0  F0a F1a F0b F1b    ...", "rank 1      F0a F1a F0b B0b..."}));
}

TEST(PipelineCheckTest, NamesAMissingPass) {
  PipelineSchedule schedule = schedule_of(PipelineKind::k1F1B, 2, 2);
  schedule.ranks[1].pop_back();  // the send
  schedule.ranks[1].pop_back();
  EXPECT_EQ(fault_of(schedule), "rank 1: passes of stage 1 are missing");
}

TEST(PipelineCheckTest, NamesAPassOutOfOrder) {
  PipelineSchedule schedule = schedule_of(PipelineKind::kGpipe, 1, 2);
  std::swap(schedule.ranks[0][2], schedule.ranks[0][3]);
  EXPECT_EQ(fault_of(schedule), "rank 0: backward of stage 0, micro-batch 1 is out of order");
}

TEST(PipelineCheckTest, NamesAPassOfAnotherRank) {
  PipelineSchedule schedule = schedule_of(PipelineKind::kGpipe, 2, 1);
  schedule.ranks[0][0].stage = 1;
  EXPECT_EQ(fault_of(schedule), "rank 0: forward of stage 1, micro-batch 0 is of another rank");
}

TEST(PipelineCheckTest, NamesAMissingReceive) {
  PipelineSchedule schedule = schedule_of(PipelineKind::k1F1B, 2, 1);
  const PipelineAction receive = {ActionKind::kReceiveActivation, 1, 0};
  schedule.ranks[1].erase(schedule.ranks[1].begin() +
                          static_cast<ptrdiff_t>(position(schedule, 1, receive)));
  EXPECT_EQ(fault_of(schedule),
            "rank 0 sends activation of stage 1, micro-batch 0 where rank 1 receives nothing");
}

TEST(PipelineCheckTest, NamesMessagesInAnotherOrder) {
  PipelineSchedule schedule = schedule_of(PipelineKind::kGpipe, 2, 2);
  const size_t first = position(schedule, 1, {ActionKind::kReceiveActivation, 1, 0});
  const size_t second = position(schedule, 1, {ActionKind::kReceiveActivation, 1, 1});
  std::swap(schedule.ranks[1][first], schedule.ranks[1][second]);
  EXPECT_EQ(fault_of(schedule),
            "rank 0 sends activation of stage 1, micro-batch 0 where rank 1 receives activation of "
            "stage 1, micro-batch 1");
}

TEST(PipelineCheckTest, FindsADeadlock) {
  PipelineSchedule schedule = schedule_of(PipelineKind::k1F1B, 2, 1);
  const PipelineAction gradient = {ActionKind::kReceiveGradient, 0, 0};
  auto& actions = schedule.ranks[0];
  std::rotate(actions.begin(),
              actions.begin() + static_cast<ptrdiff_t>(position(schedule, 0, gradient)),
              actions.begin() + static_cast<ptrdiff_t>(position(schedule, 0, gradient)) + 1);
  EXPECT_EQ(fault_of(schedule),
            "rank 0: deadlock: the gradient of stage 0, micro-batch 0 is never sent");
}

TEST(PipelineCheckTest, FindsAPassWithoutItsInput) {
  PipelineSchedule schedule = schedule_of(PipelineKind::k1F1B, 2, 1);
  std::swap(schedule.ranks[1][0], schedule.ranks[1][1]);
  EXPECT_EQ(fault_of(schedule), "rank 1: forward of stage 1, micro-batch 0 has no input");
}

TEST(PipelineCheckTest, FindsAWeightGradientBeforeItsInputGradient) {
  PipelineSchedule schedule = schedule_of(PipelineKind::kZbH1, 1, 1);
  std::swap(schedule.ranks[0][1], schedule.ranks[0][2]);
  EXPECT_EQ(fault_of(schedule),
            "rank 0: weight gradient of stage 0, micro-batch 0 comes before the input gradient");
}

TEST(PipelineCheckTest, NamesMissingRanks) {
  PipelineSchedule schedule = schedule_of(PipelineKind::kGpipe, 2, 1);
  schedule.ranks.pop_back();
  EXPECT_EQ(fault_of(schedule), "1 ranks have actions, not 2");
}

TEST(PipelineCheckTest, FindsAMessageToItsOwnRank) {
  const PipelineLayout layout = pipeline_layout(PipelineKind::kZbV, 1, 2);
  PipelineSchedule schedule = make_pipeline_schedule(PipelineKind::kZbV, layout, 1);
  schedule.ranks[0].push_back({ActionKind::kSendActivation, 0, 0});
  EXPECT_EQ(fault_of(schedule), "activation of stage 1, micro-batch 0 goes to its own rank");
}

TEST(PipelineCheckTest, FindsAMessageThatIsSentBeforeItIsComputed) {
  PipelineSchedule schedule = schedule_of(PipelineKind::kGpipe, 2, 1);
  std::swap(schedule.ranks[0][0], schedule.ranks[0][1]);
  EXPECT_EQ(fault_of(schedule),
            "rank 0: the activation of stage 1, micro-batch 0 is sent before it is computed");
}

TEST(PipelineCheckTest, ThrowsForAFaultOfAGeneratedSchedule) {
  PipelineSchedule schedule = schedule_of(PipelineKind::kGpipe, 1, 1);
  schedule.ranks[0].pop_back();
  try {
    check_pipeline_schedule(PipelineKind::kGpipe, schedule);
    FAIL() << "it is accepted";
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(),
                 "a pipeline schedule is wrong: rank 0: passes of stage 0 are missing");
  }
}

TEST(PipelineCheckTest, FindsMoreActivationsThanTheBound) {
  EXPECT_EQ(fault_of(schedule_of(PipelineKind::kGpipe, 2, 3), 2),
            "rank 0: forward of stage 0, micro-batch 2 is one activation more than 2");
}

}  // namespace
}  // namespace accel
