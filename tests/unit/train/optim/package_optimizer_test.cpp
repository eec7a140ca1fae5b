// Optimizers of other packages against golden/package_optimizers.json: 20 steps, state, resumption.
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/api/optimizer.h"
#include "core/base/error.h"
#include "kernels/blockwise_quantization.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/optim/golden.h"
#include "train/optim/evaluation_weights.h"

namespace accel::package_optimizer_test {
namespace {

using Json = nlohmann::json;

constexpr int64_t kSteps = 20;

const Json& golden() {
  static const Json json = read_golden("package_optimizers.json");
  return json;
}

std::vector<Parameter> fresh_parameters() {
  const std::vector<std::pair<std::string, std::vector<int64_t>>> shapes = {
      {"embed.weight", {6, 5}},
      {"fc.weight", {24, 14}},
      {"wide.weight", {5, 9}},
      {"fc.bias", {24}}};
  std::vector<Parameter> parameters;
  for (const auto& [name, shape] : shapes) {
    const auto seed = static_cast<int64_t>(parameters.size());
    parameters.push_back({name, golden_fill(shape, seed).requires_grad_(true)});
  }
  return parameters;
}

/// Relative to the largest wanted value.
void expect_near(const at::Tensor& tensor, const std::vector<float>& wanted,
                 const std::string& what) {
  const std::vector<float> values = values_of(tensor.to(at::kFloat));
  ASSERT_EQ(values.size(), wanted.size()) << what;
  double largest = 0;
  for (const float w : wanted) largest = std::max(largest, std::abs(double{w}));
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_LE(std::abs(double{values[i]} - double{wanted[i]}), 1e-6 * largest)
        << what << " [" << i << "]: " << values[i] << " for " << wanted[i];
  }
}

void step(Optimizer& optimizer, std::vector<Parameter>& parameters, int64_t number,
          bool skips = true) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& p = parameters[i].local;
    const bool skipped =
        skips && golden()["skipped"][0] == number && golden()["skipped"][1] == parameters[i].name;
    const auto seed = 1000 + 10 * number + static_cast<int64_t>(i);
    p.mutable_grad() = skipped ? at::Tensor() : golden_fill(p.sizes().vec(), seed);
  }
  std::vector<double> lrs = optimizer.base_lrs();
  for (double& lr : lrs) lr *= 1 - static_cast<double>(number) / 40;
  optimizer.set_lrs(lrs);
  optimizer.step();
}

/// Bases of a subspace have either sign, and libraries choose others.
bool has_signs(const Json& recipe) {
  return recipe["type"] == "galore_adamw";
}

void expect_state(const Optimizer& optimizer, const Json& wanted, const std::string& what) {
  for (const OptimizerState::Group& group : optimizer.state().groups) {
    for (const OptimizerState::ParameterState& parameter : group.parameters) {
      const Json& slots = wanted.at(parameter.name);
      for (const auto& [name, values] : slots.items()) {
        const auto slot = std::find_if(parameter.slots.begin(), parameter.slots.end(),
                                       [&](const Parameter& own) { return own.name == name; });
        ASSERT_NE(slot, parameter.slots.end()) << what << name;
        expect_near(slot->local, values, what + " " + parameter.name + " " + name);
      }
    }
  }
}

TEST(PackageOptimizerTest, TwentyStepsAndTheStateAreThePackages) {
  for (const Json& wanted : golden()["cases"]) {
    const std::string recipe = wanted["recipe"].dump();
    std::vector<Parameter> parameters = fresh_parameters();
    const auto optimizer = build<Optimizer>(recipe, {parameters});
    size_t next = 0;
    for (int64_t i = 0; i < kSteps; ++i) {
      step(*optimizer, parameters, i, wanted["recipe"]["type"] != "lamb");
      if (wanted["trace"][next]["step"] != i) continue;
      for (const Parameter& p : parameters) {
        expect_near(p.local, wanted["trace"][next][p.name],
                    recipe + " step " + std::to_string(i) + " " + p.name);
      }
      ++next;
    }
    ASSERT_EQ(next, wanted["trace"].size());
    if (!has_signs(wanted["recipe"])) expect_state(*optimizer, wanted["state"], recipe);
    if (!wanted.contains("evaluation")) continue;
    for (const Parameter& p : dynamic_cast<EvaluationWeights&>(*optimizer).evaluation_weights()) {
      expect_near(p.local, wanted["evaluation"][p.name], recipe + " evaluation " + p.name);
    }
  }
}

OptimizerState copy_of(const OptimizerState& state) {
  OptimizerState copy = state;
  for (OptimizerState::Group& group : copy.groups) {
    for (OptimizerState::ParameterState& parameter : group.parameters) {
      for (Parameter& slot : parameter.slots) slot.local = slot.local.clone();
    }
  }
  return copy;
}

/// What a checkpoint restores: the evaluation weights, and then the state.
std::vector<Parameter> saved_weights(const Optimizer& optimizer) {
  std::vector<Parameter> weights = optimizer.parameters();
  put_evaluation_weights(optimizer, weights);
  for (Parameter& item : weights) item.local = item.local.detach().clone();
  return weights;
}

TEST(PackageOptimizerTest, AResumedRunHasTheSameBits) {
  for (const Json& wanted : golden()["cases"]) {
    const std::string recipe = wanted["recipe"].dump();
    std::vector<Parameter> parameters = fresh_parameters(), others = fresh_parameters();
    const auto optimizer = build<Optimizer>(recipe, {parameters});
    for (int64_t i = 0; i < 9; ++i) step(*optimizer, parameters, i);
    const OptimizerState state = copy_of(optimizer->state());
    const std::vector<Parameter> weights = saved_weights(*optimizer);
    const std::vector<Parameter> order = optimizer->parameters();
    const auto resumed = build<Optimizer>(recipe, {others});
    const std::vector<Parameter> targets = resumed->parameters();
    for (size_t i = 0; i < targets.size(); ++i) {
      targets[i].local.detach().copy_(weights[i].local);
    }
    resumed->load(state);
    for (int64_t i = 9; i < kSteps; ++i) {
      step(*optimizer, parameters, i);
      step(*resumed, others, i);
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(at::equal(parameters[i].local, others[i].local)) << recipe << parameters[i].name;
    }
    ASSERT_EQ(order.size(), parameters.size());
  }
}

std::vector<at::Tensor> tensors_of(const std::vector<Parameter>& parameters) {
  std::vector<at::Tensor> out;
  for (const Parameter& item : parameters) out.push_back(item.local.detach().clone());
  return out;
}

TEST(ScheduleFreeTest, EvaluationsHaveTheAverageAndLeaveTheTrainingWeights) {
  std::vector<Parameter> parameters = fresh_parameters();
  const auto optimizer = build<Optimizer>("{type: schedule_free_adamw, lr: 0.1}", {parameters});
  for (int64_t i = 0; i < 5; ++i) step(*optimizer, parameters, i);
  auto& averaged = dynamic_cast<EvaluationWeights&>(*optimizer);
  const std::vector<at::Tensor> training = tensors_of(parameters);
  const std::vector<at::Tensor> wanted = tensors_of(averaged.evaluation_weights());
  averaged.swap_in_evaluation_weights();
  const OptimizerState during = copy_of(optimizer->state());
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(at::equal(parameters[i].local, wanted[i]));
    EXPECT_FALSE(at::equal(parameters[i].local, training[i]));
    EXPECT_EQ(during.groups[0].parameters[i].slots.back().name, "y");
    EXPECT_TRUE(at::equal(during.groups[0].parameters[i].slots.back().local, training[i]));
  }
  averaged.restore_training_weights();
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(at::equal(parameters[i].local, training[i]));
  }
}

TEST(ScheduleFreeTest, AStateOfThePackageHasNoTrainingWeights) {
  std::vector<Parameter> parameters = fresh_parameters(), others = fresh_parameters();
  const std::string recipe = "{type: schedule_free_adamw, lr: 0.1}";
  const auto optimizer = build<Optimizer>(recipe, {parameters});
  for (int64_t i = 0; i < 5; ++i) step(*optimizer, parameters, i);
  OptimizerState state = copy_of(optimizer->state());
  for (OptimizerState::ParameterState& item : state.groups[0].parameters) item.slots.pop_back();
  const std::vector<Parameter> weights = saved_weights(*optimizer);
  const auto resumed = build<Optimizer>(recipe, {others});
  for (size_t i = 0; i < others.size(); ++i) others[i].local.detach().copy_(weights[i].local);
  resumed->load(state);
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(parameters[i].local.allclose(others[i].local, 1e-5, 1e-6)) << parameters[i].name;
  }
  for (auto& [name, value] : state.groups[0].hyper) {
    if (name == "train_mode") value = true;  // saved without eval(): the model has y
  }
  for (size_t i = 0; i < others.size(); ++i) others[i].local.detach().copy_(parameters[i].local);
  resumed->load(state);
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(at::equal(parameters[i].local, others[i].local)) << parameters[i].name;
  }
}

TEST(ScheduleFreeTest, TrainingWeightsOfAnotherShapeAreRefused) {
  std::vector<Parameter> parameters = fresh_parameters();
  const auto optimizer = build<Optimizer>("{type: schedule_free_adamw}", {parameters});
  step(*optimizer, parameters, 0);
  OptimizerState state = copy_of(optimizer->state());
  state.groups[0].parameters[3].slots.back().local = at::zeros({2});
  try {
    optimizer->load(state);
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_STREQ(error.what(),
                 "the optimizer's state has 'y' of shape [2] for 'fc.bias', which needs [24]");
  }
}

TEST(ScheduleFreeTest, AStateWithoutItsCountersIsRefused) {
  std::vector<Parameter> parameters = fresh_parameters();
  const auto optimizer = build<Optimizer>("{type: schedule_free_adamw}", {parameters});
  OptimizerState state = optimizer->state();
  std::erase_if(state.groups[0].hyper, [](const auto& item) { return item.first == "lr_max"; });
  try {
    optimizer->load(state);
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_STREQ(error.what(), "the state of 'schedule_free_adamw' has no 'lr_max' in group 0");
  }
}

TEST(BlockwiseQuantizationTest, TheMapsAreBitsandbytes) {
  for (const bool is_signed : {true, false}) {
    const std::vector<float> wanted = golden()["maps"][is_signed ? "signed" : "unsigned"];
    EXPECT_EQ(values_of(dynamic_map(is_signed)), wanted);
  }
}

TEST(BlockwiseQuantizationTest, BlocksHaveTheirOwnScaleAndZerosStay) {
  const at::Tensor values = at::zeros({2 * kQuantizationBlock + 3});
  values[0] = -4.F;
  values[1] = 2.F;
  values[2 * kQuantizationBlock] = 1e-3F;
  const QuantizedTensor to = {at::zeros(values.sizes(), at::kByte), at::zeros({3}),
                              dynamic_map(true)};
  quantize(values, to);
  EXPECT_TRUE(at::equal(to.abs_max, at::tensor({4.F, 0.F, 1e-3F})));
  const at::Tensor found = dequantize(to);
  EXPECT_TRUE(found.allclose(values, 0.02, 0));
  EXPECT_EQ(found[kQuantizationBlock].item<float>(), 0);
  EXPECT_EQ(found[2 * kQuantizationBlock + 1].item<float>(), 0);
}

TEST(AdamW8BitTest, StateIsInEightBitsForLargeParametersOnly) {
  std::vector<Parameter> parameters = fresh_parameters();
  const auto optimizer =
      build<Optimizer>("{type: adamw_8bit, min_8bit_size: 40, exclude: [wide.*]}", {parameters});
  step(*optimizer, parameters, 0);
  const OptimizerState state = optimizer->state();
  const auto type_of = [&](size_t i) {
    return state.groups[0].parameters[i].slots[1].local.scalar_type();
  };
  EXPECT_EQ(type_of(1), at::kByte);   // fc.weight
  EXPECT_EQ(type_of(2), at::kFloat);  // excluded
  EXPECT_EQ(type_of(3), at::kFloat);  // small
}

TEST(GaloreTest, MomentsAreInTheSubspace) {
  std::vector<Parameter> parameters = fresh_parameters();
  const auto optimizer = build<Optimizer>("{type: galore_adamw, rank: 2}", {parameters});
  step(*optimizer, parameters, 0);
  const auto& matrices = optimizer->state().groups[0].parameters;
  EXPECT_EQ(matrices[1].slots[1].local.sizes(), (at::IntArrayRef{2, 14}));  // the projection
  EXPECT_EQ(matrices[1].slots[2].local.sizes(), (at::IntArrayRef{24, 2}));
  EXPECT_EQ(matrices[2].slots[2].local.sizes(), (at::IntArrayRef{2, 9}));
  EXPECT_EQ(matrices[0].slots[1].local.sizes(), (at::IntArrayRef{6, 5}));  // excluded: exp_avg
}

}  // namespace
}  // namespace accel::package_optimizer_test
