#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "core/api/callback.h"
#include "tests/unit/build_component.h"

namespace accel::ema_test {
namespace {

/// A model of one weight.
struct OneWeight {
  CallbackContext context{{{"weight", at::full({1}, 1.0f).requires_grad_(true)}}, {}, {}};

  void set(float value) { context.parameters[0].local.data().fill_(value); }
  float value() const { return context.parameters[0].local.item<float>(); }
};

float average_of(Callback& ema, const OneWeight& model) {
  ema.before_eval();
  const float average = model.value();
  ema.after_eval();
  return average;
}

TEST(EmaTest, AveragesTheWeightsAfterEachStep) {
  OneWeight model;
  const auto ema = build<Callback>("{type: ema, decay: 0.5}", model.context);
  model.set(3);
  ema->on_step(1);
  EXPECT_EQ(average_of(*ema, model), 2);
  ema->on_step(2);
  EXPECT_EQ(average_of(*ema, model), 2.5);
}

TEST(EmaTest, TheWeightsComeBackAfterAnEvaluation) {
  OneWeight model;
  const auto ema = build<Callback>("{type: ema, decay: 0.5}", model.context);
  model.set(0.1f);
  ema->on_step(1);
  average_of(*ema, model);
  EXPECT_EQ(model.value(), 0.1f);
  EXPECT_TRUE(model.context.parameters[0].local.requires_grad());
}

TEST(EmaTest, CodesOfQuantizedWeightsAreLeftOut) {
  OneWeight model;
  const at::Tensor codes = at::full({2}, 7, at::kByte);
  model.context.parameters.push_back({"codes", codes});
  const auto ema = build<Callback>("{type: ema, decay: 0.5}", model.context);
  model.set(3);
  ema->on_step(1);
  EXPECT_EQ(average_of(*ema, model), 2);
  EXPECT_TRUE(codes.equal(at::full({2}, 7, at::kByte)));
}

TEST(EmaTest, EverySkipsTheStepsBetween) {
  OneWeight model;
  const auto ema = build<Callback>("{type: ema, decay: 0.5, every: 2 steps}", model.context);
  model.set(3);
  ema->on_step(1);
  EXPECT_EQ(average_of(*ema, model), 1);
  ema->on_step(2);
  EXPECT_EQ(average_of(*ema, model), 2);
}

TEST(EmaTest, WarmupForgetsTheFirstWeightsSooner) {
  OneWeight model;
  const auto ema = build<Callback>("{type: ema, decay: 0.5, warmup: true}", model.context);
  model.set(11);
  ema->on_step(1);
  EXPECT_EQ(average_of(*ema, model), 10);  // keeps 1/10 of 1
}

TEST(EmaTest, ContinuesFromASavedState) {
  OneWeight model;
  const std::string recipe = "{type: ema, decay: 0.5, warmup: true}";
  const auto first = build<Callback>(recipe, model.context);
  model.set(11);
  first->on_step(1);
  StateDict state;
  first->save(state);
  EXPECT_EQ(state.numbers.at("updates"), 1);
  EXPECT_EQ(state.tensors.at("weight").item<float>(), 10);
  state.tensors["weight"] = state.tensors["weight"].clone();
  const auto second = build<Callback>(recipe, model.context);
  second->load(state);
  first->on_step(2);
  second->on_step(2);
  EXPECT_EQ(average_of(*first, model), average_of(*second, model));
}

TEST(EmaTest, AStateOfAnotherModelIsRefused) {
  OneWeight model;
  const auto ema = build<Callback>("ema", model.context);
  const auto refusal = [&](const StateDict& state) -> std::string {
    try {
      ema->load(state);
    } catch (const CheckpointError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({}), "the state of 'ema' has no 'updates' that fits the model");
  EXPECT_EQ(refusal({{{"updates", 1}}, {}, {{"weight", at::zeros({2})}}}),
            "the state of 'ema' has no 'weight' that fits the model");
}

TEST(EmaTest, EveryMustBeInSteps) {
  EXPECT_EQ(complaint<Callback>("{type: ema, every: 1 epochs}", OneWeight().context),
            "recipe.yaml:1:20: error: 'every' must be a number of steps, not 1 epoch\n"
            "    {type: ema, every: 1 epochs}\n"
            "                       ^\n");
}

}  // namespace
}  // namespace accel::ema_test
