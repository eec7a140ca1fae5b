// One optimizer of ours as several of PyTorch's, and back.
#include "runner/checkpoint/several_optimizers.h"

#include <gtest/gtest.h>

#include "runner/checkpoint/accelerate_files.h"
#include "runner/formats/format_error.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel {
namespace {

OptimizerState::Group group_of(const std::string& option, const std::string& parameter) {
  return {{{"lr", 0.1}, {option, 0.5}}, {{parameter, {{"slot", floats({2}, 1)}}}}};
}

/// Matrices under one rule, the rest in two groups of another.
TrainState mixed_state() {
  TrainState state;
  state.optimizer.groups = {group_of("momentum", "weight"), group_of("eps", "bias"),
                            group_of("eps", "norm")};
  state.base_lrs = {1, 2, 3};
  state.lrs = {4, 5, 6};
  return state;
}

TEST(SeveralOptimizersTest, GroupsOfOtherOptionsGoToAnotherFile) {
  const std::vector<TrainState> parts = split_optimizers(mixed_state());
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(optimizer_parameters(parts[0].optimizer), std::vector<std::string>{"weight"});
  EXPECT_EQ(optimizer_parameters(parts[1].optimizer), (std::vector<std::string>{"bias", "norm"}));
  EXPECT_EQ(parts[1].base_lrs, (std::vector<double>{2, 3}));
  EXPECT_EQ(parts[1].lrs, (std::vector<double>{5, 6}));
  EXPECT_EQ(numbered_file("optimizer.bin", 0), "optimizer.bin");
  EXPECT_EQ(numbered_file("scheduler.bin", 2), "scheduler_2.bin");
}

TEST(SeveralOptimizersTest, TheFilesAreReadAsOneOptimizer) {
  const TrainState state = mixed_state();
  std::vector<Value> values;
  for (const TrainState& part : split_optimizers(state)) values.push_back(optimizer_value(part));
  TrainState back;
  read_optimizer(join_optimizers(std::move(values)), optimizer_parameters(state.optimizer), back);
  EXPECT_EQ(text_of(back).substr(0, text_of(back).find("base_lr")),
            text_of(state).substr(0, text_of(state).find("base_lr")));
}

TEST(SeveralOptimizersTest, EachOptimizerHasAFileHoweverAlikeTheyAre) {
  TrainState state = mixed_state();
  state.optimizer.groups.push_back(group_of("eps", "critic/bias"));
  state.optimizers = {3, 1};
  const std::vector<TrainState> parts = split_optimizers(state);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(optimizer_parameters(parts[1].optimizer), (std::vector<std::string>{"bias", "norm"}));
  EXPECT_EQ(optimizer_parameters(parts[2].optimizer), std::vector<std::string>{"critic/bias"});
}

TEST(SeveralOptimizersTest, ModelsAreNumberedAsTheyComeAndTheRecipesHasNoName) {
  EXPECT_EQ(further_models({"fc.weight", "critic/fc.weight", "teacher/w", "critic/fc.bias"}),
            (std::vector<std::string>{"critic", "teacher"}));
  EXPECT_EQ(split_name("critic/fc.weight"),
            std::pair(std::string("critic"), std::string("fc.weight")));
  EXPECT_EQ(split_name("fc.weight"), std::pair(std::string(), std::string("fc.weight")));
}

TEST(SeveralOptimizersTest, WithoutGroupsThereIsOneFile) {
  EXPECT_EQ(split_optimizers(TrainState()).size(), 1U);
}

TEST(SeveralOptimizersTest, ANumberThatIsNoneIsRefused) {
  const auto value = [](int64_t number) {
    const Value group = Value::Dict{{{"params", Value::List{{number}}}}};
    return Value::Dict{{{"state", Value::Dict()}, {"param_groups", Value::List{{group}}}}};
  };
  try {
    join_optimizers({value(0), value(-1)});
    FAIL() << "it was taken";
  } catch (const FormatError& error) {
    EXPECT_STREQ(error.what(), "a parameter is neither a number nor a name");
  }
}

TEST(SeveralOptimizersTest, RatesOfAllSchedulersAreJoined) {
  TorchSchedule first, second;
  first.base_lrs = {1};
  first.last_lrs = {2};
  second.base_lrs = {3, 4};
  second.last_lrs = {5, 6};
  second.cycles_momentum = true;
  const TorchSchedule joined = join_schedules({first, second});
  EXPECT_EQ(joined.base_lrs, (std::vector<double>{1, 3, 4}));
  EXPECT_EQ(joined.last_lrs, (std::vector<double>{2, 5, 6}));
  EXPECT_TRUE(joined.cycles_momentum);
}

}  // namespace
}  // namespace accel
