// Optimizer state as torch.optim state_dicts, and back.
#include "checkpoint/optimizer_state_dict.h"

#include <gtest/gtest.h>

#include "checkpoint/file_names.h"
#include "core/base/format_error.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel::optimizer_state_dict_test {
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

TEST(OptimizerStateDictTest, GroupsOfOtherOptionsGoToAnotherFile) {
  const std::vector<TrainState> parts = split_optimizers(mixed_state());
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(optimizer_parameters(parts[0].optimizer), std::vector<std::string>{"weight"});
  EXPECT_EQ(optimizer_parameters(parts[1].optimizer), (std::vector<std::string>{"bias", "norm"}));
  EXPECT_EQ(parts[1].base_lrs, (std::vector<double>{2, 3}));
  EXPECT_EQ(parts[1].lrs, (std::vector<double>{5, 6}));
  EXPECT_EQ(numbered_file("optimizer.bin", 0), "optimizer.bin");
  EXPECT_EQ(numbered_file("scheduler.bin", 2), "scheduler_2.bin");
}

TEST(OptimizerStateDictTest, TheFilesAreReadAsOneOptimizer) {
  const TrainState state = mixed_state();
  std::vector<Value> values;
  for (const TrainState& part : split_optimizers(state)) values.push_back(optimizer_value(part));
  TrainState back;
  read_optimizer(join_optimizers(std::move(values)), optimizer_parameters(state.optimizer), back);
  EXPECT_EQ(text_of(back).substr(0, text_of(back).find("base_lr")),
            text_of(state).substr(0, text_of(state).find("base_lr")));
}

TEST(OptimizerStateDictTest, EachOptimizerHasAFileHoweverAlikeTheyAre) {
  TrainState state = mixed_state();
  state.optimizer.groups.push_back(group_of("eps", "critic/bias"));
  state.optimizers = {3, 1};
  const std::vector<TrainState> parts = split_optimizers(state);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(optimizer_parameters(parts[1].optimizer), (std::vector<std::string>{"bias", "norm"}));
  EXPECT_EQ(optimizer_parameters(parts[2].optimizer), std::vector<std::string>{"critic/bias"});
}

TEST(OptimizerStateDictTest, ModelsAreNumberedAsTheyComeAndTheRecipesHasNoName) {
  EXPECT_EQ(further_models({"fc.weight", "critic/fc.weight", "teacher/w", "critic/fc.bias"}),
            (std::vector<std::string>{"critic", "teacher"}));
  EXPECT_EQ(split_name("critic/fc.weight"),
            std::pair(std::string("critic"), std::string("fc.weight")));
  EXPECT_EQ(split_name("fc.weight"), std::pair(std::string(), std::string("fc.weight")));
}

TEST(OptimizerStateDictTest, WithoutGroupsThereIsOneFile) {
  EXPECT_EQ(split_optimizers(TrainState()).size(), 1U);
}

TEST(OptimizerStateDictTest, ANegativeIdIsRefused) {
  const auto value = [](int64_t number) {
    const Value group = Value::Dict{{{"params", Value::List{{number}}}}};
    return Value::Dict{{{"state", Value::Dict()}, {"param_groups", Value::List{{group}}}}};
  };
  try {
    join_optimizers({value(0), value(-1)});
    FAIL() << "it was taken";
  } catch (const FormatError& error) {
    EXPECT_STREQ(error.what(), "a parameter key is neither an id nor a name");
  }
}

TEST(OptimizerStateDictTest, RatesOfAllSchedulersAreJoined) {
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

Value optimizer_of(const std::vector<Value>& parameters, const Value& with_state) {
  Value::Dict state, group, out;
  state.items.emplace_back(with_state, Value::Dict());
  group.items.emplace_back("lr", 0.5);
  group.items.emplace_back("params", Value::List{parameters});
  out.items.emplace_back("state", std::move(state));
  out.items.emplace_back("param_groups", Value::List{{Value(std::move(group))}});
  return out;
}

TEST(OptimizerStateDictTest, NamesAndIdsConvert) {
  const Value named = optimizer_of({"b", "a"}, "a"), numbered = optimizer_of({0, 1}, 1);
  EXPECT_EQ(write_pickle(with_param_ids(named)), write_pickle(numbered));
  EXPECT_EQ(write_pickle(with_param_ids(numbered)), write_pickle(numbered));
  const std::vector<std::string> all = {"b", "a", "of another"};
  std::span<const std::string> names = all;
  EXPECT_EQ(write_pickle(*with_param_names(numbered, names)), write_pickle(named));
  ASSERT_EQ(names.size(), 1U);
  EXPECT_FALSE(with_param_names(numbered, names));
  names = {};
  EXPECT_EQ(write_pickle(*with_param_names(named, names)), write_pickle(named));
}

TEST(OptimizerStateDictTest, AnInvalidStateDictIsRefused) {
  EXPECT_THROW(with_param_ids(Value()), FormatError);
  EXPECT_THROW(with_param_ids(optimizer_of({0, Value()}, 0)), FormatError);
  try {
    with_param_ids(optimizer_of({"a"}, "b"));
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_STREQ(error.what(), "parameter 'b' has a state but is in no group");
  }
}

TEST(OptimizerStateDictTest, AnOptionIsANumberOrAListOfNumbers) {
  const Value betas = Value::List{{Value(0.9), Value("high")}};
  const Value group = Value::Dict{{{"betas", betas}, {"params", Value::List{{Value(0)}}}}};
  const Value value =
      Value::Dict{{{"state", Value::Dict()}, {"param_groups", Value::List{{group}}}}};
  TrainState state;
  try {
    read_optimizer(value, {"w"}, state);
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_STREQ(error.what(), "'betas' is not a list of numbers");
  }
}

/// An optimizer of one parameter whose state has one slot.
Value optimizer_with_slot(const std::string& slot, Value value) {
  Value out = optimizer_of({0}, 0);
  Value::Dict state, slots;
  slots.items.emplace_back(slot, std::move(value));
  state.items.emplace_back(0, std::move(slots));
  Value::Dict all = *out.as<Value::Dict>();
  all.items[0].second = std::move(state);
  return all;
}

TEST(OptimizerStateDictTest, AStateThatDoesNotFitIsRefused) {
  const struct {
    Value optimizer;
    std::vector<std::string> names;
    const char* message;
  } cases[] = {
      {optimizer_of({5}, 5), {"a"}, "parameter id 5 is out of range for 1 parameters"},
      {optimizer_of({0, 1}, 0), {"a", "b", "c"}, "it has 2 parameters, 3 wanted"},
      {optimizer_with_slot("slot", "x"),
       {"a"},
       "'slot' in the state of a parameter is not a tensor"},
      {optimizer_with_slot("step", -1.0), {"a"}, "'step' of 'a' is not a step count"},
  };
  for (const auto& [optimizer, names, message] : cases) {
    TrainState back;
    try {
      read_optimizer(optimizer, names, back);
      updates_in(back.optimizer);
      ADD_FAILURE() << message;
    } catch (const FormatError& error) {
      EXPECT_STREQ(error.what(), message);
    }
  }
}

}  // namespace
}  // namespace accel::optimizer_state_dict_test
