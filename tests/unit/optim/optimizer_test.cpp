// What every optimizer promises beyond its rule: state in and out, gradients, layouts.
#include <gtest/gtest.h>

#include "core/optimizer.h"
#include "tests/unit/build_component.h"
#include "tests/unit/optim/golden.h"

namespace accel {
namespace {

std::vector<std::string> all_optimizers() {
  Registry registry;
  Registration::enter_all(registry);
  return registry.of<Optimizer>().names();
}

void take_gradients(const std::vector<NamedTensor>& parameters, int64_t step) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& p = parameters[i].tensor;
    p.mutable_grad() = golden_fill(p.sizes().vec(), 100 * step + static_cast<int64_t>(i));
  }
}

void train(Optimizer& optimizer, const std::vector<NamedTensor>& parameters, int64_t first,
           int64_t last) {
  for (int64_t step = first; step < last; ++step) {
    take_gradients(parameters, step);
    optimizer.step();
  }
}

OptimizerState copy_of(const OptimizerState& state) {
  OptimizerState copy = state;
  for (OptimizerState::Group& group : copy.groups) {
    for (OptimizerState::Parameter& parameter : group.parameters) {
      for (NamedTensor& slot : parameter.slots) slot.tensor = slot.tensor.clone();
    }
  }
  return copy;
}

TEST(OptimizerTest, ALoadedStateContinuesToTheLastBit) {
  for (const std::string& type : all_optimizers()) {
    const std::string recipe = "{type: " + type + (type == "sgd" ? ", momentum: 0.9}" : "}");
    const std::vector<NamedTensor> straight = golden_parameters();
    const auto optimizer = build<Optimizer>(recipe, {straight});
    train(*optimizer, straight, 0, 3);
    const OptimizerState saved = copy_of(optimizer->state());
    std::vector<NamedTensor> resumed;
    for (const NamedTensor& p : straight) {
      resumed.push_back({p.name, p.tensor.detach().clone().requires_grad_(true)});
    }
    const auto other = build<Optimizer>(recipe, {resumed});
    other->load(saved);
    train(*optimizer, straight, 3, 6);
    train(*other, resumed, 3, 6);
    for (size_t i = 0; i < straight.size(); ++i) {
      EXPECT_EQ(values_of(straight[i].tensor), values_of(resumed[i].tensor)) << type;
    }
  }
}

TEST(OptimizerTest, LoadedTensorsAreCopies) {
  const std::vector<NamedTensor> parameters = golden_parameters();
  const auto optimizer = build<Optimizer>("{type: sgd, momentum: 0.9}", {parameters});
  train(*optimizer, parameters, 0, 1);
  const OptimizerState saved = copy_of(optimizer->state());
  const auto before = values_of(saved.groups[0].parameters[0].slots[0].tensor);
  optimizer->load(saved);
  train(*optimizer, parameters, 1, 2);
  EXPECT_EQ(values_of(saved.groups[0].parameters[0].slots[0].tensor), before);
}

TEST(OptimizerTest, ParametersWithoutGradientStayFresh) {
  for (const std::string& type : all_optimizers()) {
    if (type == "adagrad") continue;  // its state is there from the start, as in PyTorch
    const std::vector<NamedTensor> parameters = golden_parameters();
    const auto optimizer = build<Optimizer>(type, {parameters});
    const auto before = values_of(parameters[2].tensor);
    take_gradients(parameters, 0);
    parameters[2].tensor.mutable_grad() = at::Tensor();
    optimizer->step();
    EXPECT_EQ(values_of(parameters[2].tensor), before) << type;
    for (const OptimizerState::Group& group : optimizer->state().groups) {
      for (const OptimizerState::Parameter& parameter : group.parameters) {
        const bool fresh = parameter.name == "fc.bias" || type == "sgd";
        EXPECT_EQ(parameter.slots.empty(), fresh) << type << " " << parameter.name;
      }
    }
  }
}

TEST(OptimizerTest, WhatItReservesChangesNothingButWhere) {
  for (const std::string& type : all_optimizers()) {
    const std::vector<NamedTensor> plain = golden_parameters(), other = golden_parameters();
    const auto a = build<Optimizer>(type, {plain}), b = build<Optimizer>(type, {other});
    const int64_t to_come = b->bytes_to_come();
    b->reserve();
    EXPECT_EQ(b->bytes_to_come(), to_come) << type;
    for (const auto& [parameters, optimizer] :
         {std::pair(&plain, a.get()), std::pair(&other, b.get())}) {
      take_gradients(*parameters, 0);
      (*parameters)[2].tensor.mutable_grad() = at::Tensor();
      optimizer->step();
      train(*optimizer, *parameters, 1, 3);
    }
    const OptimizerState theirs = a->state(), ours = b->state();
    for (size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(values_of(plain[i].tensor), values_of(other[i].tensor)) << type;
    }
    for (size_t g = 0; g < theirs.groups.size(); ++g) {
      for (size_t p = 0; p < theirs.groups[g].parameters.size(); ++p) {
        const auto &wanted = theirs.groups[g].parameters[p], &found = ours.groups[g].parameters[p];
        ASSERT_EQ(found.slots.size(), wanted.slots.size()) << type << " " << wanted.name;
        for (size_t s = 0; s < wanted.slots.size(); ++s) {
          EXPECT_EQ(values_of(found.slots[s].tensor), values_of(wanted.slots[s].tensor)) << type;
        }
      }
    }
  }
}

TEST(OptimizerTest, AParameterWithoutGradientHasNoStateThoughItWasReserved) {
  const std::vector<NamedTensor> parameters = golden_parameters();
  const auto optimizer = build<Optimizer>("adamw", {parameters});
  optimizer->reserve();
  EXPECT_TRUE(optimizer->state().groups[0].parameters[0].slots.empty());
  take_gradients(parameters, 0);
  parameters[2].tensor.mutable_grad() = at::Tensor();
  optimizer->step();
  const OptimizerState state = optimizer->state();
  EXPECT_TRUE(state.groups[0].parameters[2].slots.empty());
  EXPECT_EQ(state.groups[0].parameters[1].slots.size(), 3U);
}

TEST(OptimizerTest, ZeroGradDropsTheGradients) {
  for (const std::string& type : all_optimizers()) {
    const std::vector<NamedTensor> parameters = golden_parameters();
    const auto optimizer = build<Optimizer>(type, {parameters});
    take_gradients(parameters, 0);
    optimizer->zero_grad();
    for (const NamedTensor& p : parameters) EXPECT_FALSE(p.tensor.grad().defined()) << type;
  }
}

TEST(OptimizerTest, AGradientInAnotherMemoryLayoutGivesTheSameUpdate) {
  for (const std::string& type : all_optimizers()) {
    const std::vector<NamedTensor> plain = golden_parameters(), other = golden_parameters();
    const auto a = build<Optimizer>(type, {plain}), b = build<Optimizer>(type, {other});
    take_gradients(plain, 0);
    take_gradients(other, 0);
    at::Tensor& gradient = other[1].tensor.mutable_grad();
    gradient = gradient.t().contiguous().t();
    a->step();
    b->step();
    EXPECT_EQ(values_of(plain[1].tensor), values_of(other[1].tensor)) << type;
  }
}

int64_t bytes_of(const OptimizerState& state) {
  int64_t bytes = 0;
  for (const OptimizerState::Group& group : state.groups) {
    for (const OptimizerState::Parameter& parameter : group.parameters) {
      for (const NamedTensor& slot : parameter.slots) {
        bytes += static_cast<int64_t>(slot.tensor.nbytes());
      }
    }
  }
  return bytes;
}

TEST(OptimizerTest, TheSizeOfItsStateIsKnownBeforeTheFirstStep) {
  for (const std::string& type : all_optimizers()) {
    const std::vector<NamedTensor> parameters = golden_parameters();
    const auto optimizer = build<Optimizer>(type, {parameters});
    const int64_t expected = bytes_of(optimizer->state()) + optimizer->bytes_to_come();
    train(*optimizer, parameters, 0, 1);
    EXPECT_EQ(bytes_of(optimizer->state()), expected) << type;
    EXPECT_EQ(optimizer->bytes_to_come(), 0) << type;
    EXPECT_EQ(expected > 0, type != "sgd") << type;
  }
}

TEST(OptimizerTest, MuonLeavesVectorsAndEmbeddingsToAdamw) {
  const auto optimizer = build<Optimizer>("{type: muon, adamw: {lr: 0.5}}", {golden_parameters()});
  const OptimizerState state = optimizer->state();
  ASSERT_EQ(state.groups.size(), 2u);
  ASSERT_EQ(state.groups[0].parameters.size(), 1u);
  EXPECT_EQ(state.groups[0].parameters[0].name, "fc.weight");
  EXPECT_EQ(optimizer->base_lrs(), (std::vector<double>{0.001, 0.5}));
}

/// What loading a changed state throws.
template <class Edit>
std::string load_complaint(const Edit& edit) {
  const std::vector<NamedTensor> parameters = golden_parameters();
  const auto optimizer = build<Optimizer>("adamw", {parameters});
  train(*optimizer, parameters, 0, 1);
  OptimizerState state = copy_of(optimizer->state());
  edit(state);
  try {
    optimizer->load(state);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

TEST(OptimizerTest, AStateThatDoesNotFitIsRefusedByName) {
  EXPECT_EQ(load_complaint([](OptimizerState&) {}), "");
  EXPECT_EQ(load_complaint([](OptimizerState& s) { s.groups.clear(); }),
            "the optimizer's state has 0 groups, the recipe makes 1");
  EXPECT_EQ(load_complaint([](OptimizerState& s) { s.groups[0].parameters.pop_back(); }),
            "the optimizer's state has 3 parameters in group 0, the recipe puts 4 there");
  EXPECT_EQ(load_complaint([](OptimizerState& s) { s.groups[0].parameters[1].name = "x"; }),
            "the optimizer's state has 'x' where the recipe has 'fc.weight'");
  const auto slots = [](OptimizerState& s) -> std::vector<NamedTensor>& {
    return s.groups[0].parameters[1].slots;
  };
  EXPECT_EQ(load_complaint([&](OptimizerState& s) { slots(s).pop_back(); }),
            "the optimizer's state has no 'exp_avg_sq' for 'fc.weight'");
  EXPECT_EQ(load_complaint([&](OptimizerState& s) { slots(s)[1].tensor = at::tensor({1.0f}); }),
            "the optimizer's state has 'exp_avg' of shape [1] for 'fc.weight', which wants [4, 3]");
  EXPECT_EQ(load_complaint([&](OptimizerState& s) {
              slots(s).push_back({"momentum_buffer", at::tensor({1.0f})});
            }),
            "the optimizer's state has 'momentum_buffer' for 'fc.weight', which this optimizer "
            "does not keep");
  EXPECT_EQ(load_complaint([&](OptimizerState& s) { slots(s).push_back(slots(s)[0]); }),
            "the optimizer's state has 'step' for 'fc.weight' twice");
}

}  // namespace
}  // namespace accel
