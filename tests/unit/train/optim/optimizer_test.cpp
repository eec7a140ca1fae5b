// What every optimizer promises beyond its rule: state in and out, gradients, layouts.
#include <gtest/gtest.h>

#include "core/api/optimizer.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/optim/golden.h"
#include "train/optim/skips_updates.h"

namespace accel::optimizer_test {
namespace {

std::vector<std::string> all_optimizers() {
  Registry registry;
  Registration::enter_all(registry);
  return registry.of<Optimizer>().names();
}

void take_gradients(const std::vector<Parameter>& parameters, int64_t step) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& p = parameters[i].local;
    p.mutable_grad() = golden_fill(p.sizes().vec(), 100 * step + static_cast<int64_t>(i));
  }
}

void train(Optimizer& optimizer, const std::vector<Parameter>& parameters, int64_t first,
           int64_t last) {
  for (int64_t step = first; step < last; ++step) {
    take_gradients(parameters, step);
    optimizer.step();
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

TEST(OptimizerTest, ALoadedStateContinuesToTheLastBit) {
  for (const std::string& type : all_optimizers()) {
    const std::string recipe = "{type: " + type + (type == "sgd" ? ", momentum: 0.9}" : "}");
    const std::vector<Parameter> straight = golden_parameters();
    const auto optimizer = build<Optimizer>(recipe, {straight});
    train(*optimizer, straight, 0, 3);
    const OptimizerState saved = copy_of(optimizer->state());
    std::vector<Parameter> resumed;
    for (const Parameter& p : straight) {
      resumed.push_back({p.name, p.local.detach().clone().requires_grad_(true)});
    }
    const auto other = build<Optimizer>(recipe, {resumed});
    other->load(saved);
    train(*optimizer, straight, 3, 6);
    train(*other, resumed, 3, 6);
    for (size_t i = 0; i < straight.size(); ++i) {
      EXPECT_EQ(values_of(straight[i].local), values_of(resumed[i].local)) << type;
    }
  }
}

/// Of one kernel, which takes tensors of one type.
TEST(OptimizerTest, SgdSkipsUpdatesOfParametersOfOneType) {
  const auto can_skip = [](const std::vector<Parameter>& parameters) {
    const auto optimizer = build<Optimizer>("sgd", {parameters});
    return dynamic_cast<SkipsUpdates&>(*optimizer).can_skip();
  };
  std::vector<Parameter> parameters = golden_parameters();
  EXPECT_TRUE(can_skip(parameters));
  parameters.back().local = parameters.back().local.detach().to(at::kBFloat16);
  EXPECT_FALSE(can_skip(parameters));
}

TEST(OptimizerTest, LoadedTensorsAreCopies) {
  const std::vector<Parameter> parameters = golden_parameters();
  const auto optimizer = build<Optimizer>("{type: sgd, momentum: 0.9}", {parameters});
  train(*optimizer, parameters, 0, 1);
  const OptimizerState saved = copy_of(optimizer->state());
  const auto before = values_of(saved.groups[0].parameters[0].slots[0].local);
  optimizer->load(saved);
  train(*optimizer, parameters, 1, 2);
  EXPECT_EQ(values_of(saved.groups[0].parameters[0].slots[0].local), before);
}

TEST(OptimizerTest, ParametersWithoutGradientStayFresh) {
  for (const std::string& type : all_optimizers()) {
    if (type == "adagrad") continue;  // its state is there from the start, as in PyTorch
    const std::vector<Parameter> parameters = golden_parameters();
    const auto optimizer = build<Optimizer>(type, {parameters});
    const auto before = values_of(parameters[2].local);
    take_gradients(parameters, 0);
    parameters[2].local.mutable_grad() = at::Tensor();
    optimizer->step();
    EXPECT_EQ(values_of(parameters[2].local), before) << type;
    for (const OptimizerState::Group& group : optimizer->state().groups) {
      for (const OptimizerState::ParameterState& parameter : group.parameters) {
        const bool fresh = parameter.name == "fc.bias" || type == "sgd";
        EXPECT_EQ(parameter.slots.empty(), fresh) << type << " " << parameter.name;
      }
    }
  }
}

TEST(OptimizerTest, WhatItReservesChangesNothingButWhere) {
  for (const std::string& type : all_optimizers()) {
    const std::vector<Parameter> plain = golden_parameters(), other = golden_parameters();
    const auto a = build<Optimizer>(type, {plain}), b = build<Optimizer>(type, {other});
    const int64_t to_come = b->pending_state_bytes();
    b->preallocate_state();
    EXPECT_EQ(b->pending_state_bytes(), to_come) << type;
    for (const auto& [parameters, optimizer] :
         {std::pair(&plain, a.get()), std::pair(&other, b.get())}) {
      take_gradients(*parameters, 0);
      (*parameters)[2].local.mutable_grad() = at::Tensor();
      optimizer->step();
      train(*optimizer, *parameters, 1, 3);
    }
    const OptimizerState theirs = a->state(), ours = b->state();
    for (size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(values_of(plain[i].local), values_of(other[i].local)) << type;
    }
    for (size_t g = 0; g < theirs.groups.size(); ++g) {
      for (size_t p = 0; p < theirs.groups[g].parameters.size(); ++p) {
        const auto &wanted = theirs.groups[g].parameters[p], &found = ours.groups[g].parameters[p];
        ASSERT_EQ(found.slots.size(), wanted.slots.size()) << type << " " << wanted.name;
        for (size_t s = 0; s < wanted.slots.size(); ++s) {
          EXPECT_EQ(values_of(found.slots[s].local), values_of(wanted.slots[s].local)) << type;
        }
      }
    }
  }
}

TEST(OptimizerTest, AParameterWithoutGradientHasNoStateThoughItWasReserved) {
  const std::vector<Parameter> parameters = golden_parameters();
  const auto optimizer = build<Optimizer>("adamw", {parameters});
  optimizer->preallocate_state();
  EXPECT_TRUE(optimizer->state().groups[0].parameters[0].slots.empty());
  take_gradients(parameters, 0);
  parameters[2].local.mutable_grad() = at::Tensor();
  optimizer->step();
  const OptimizerState state = optimizer->state();
  EXPECT_TRUE(state.groups[0].parameters[2].slots.empty());
  EXPECT_EQ(state.groups[0].parameters[1].slots.size(), 3U);
}

TEST(OptimizerTest, ZeroGradDropsTheGradients) {
  for (const std::string& type : all_optimizers()) {
    const std::vector<Parameter> parameters = golden_parameters();
    const auto optimizer = build<Optimizer>(type, {parameters});
    take_gradients(parameters, 0);
    optimizer->zero_grad();
    for (const Parameter& p : parameters) EXPECT_FALSE(p.local.grad().defined()) << type;
  }
}

TEST(OptimizerTest, AGradientInAnotherMemoryLayoutGivesTheSameUpdate) {
  for (const std::string& type : all_optimizers()) {
    const std::vector<Parameter> plain = golden_parameters(), other = golden_parameters();
    const auto a = build<Optimizer>(type, {plain}), b = build<Optimizer>(type, {other});
    take_gradients(plain, 0);
    take_gradients(other, 0);
    at::Tensor& gradient = other[1].local.mutable_grad();
    gradient = gradient.t().contiguous().t();
    a->step();
    b->step();
    EXPECT_EQ(values_of(plain[1].local), values_of(other[1].local)) << type;
  }
}

int64_t bytes_of(const OptimizerState& state) {
  int64_t bytes = 0;
  for (const OptimizerState::Group& group : state.groups) {
    for (const OptimizerState::ParameterState& parameter : group.parameters) {
      for (const Parameter& slot : parameter.slots) {
        if (slot.name == "y") continue;  // of schedule_free_adamw: the parameter itself
        bytes += static_cast<int64_t>(slot.local.nbytes());
      }
    }
  }
  return bytes;
}

TEST(OptimizerTest, TheSizeOfItsStateIsKnownBeforeTheFirstStep) {
  for (const std::string& type : all_optimizers()) {
    const std::vector<Parameter> parameters = golden_parameters();
    const auto optimizer = build<Optimizer>(type, {parameters});
    const int64_t expected = bytes_of(optimizer->state()) + optimizer->pending_state_bytes();
    train(*optimizer, parameters, 0, 1);
    EXPECT_EQ(bytes_of(optimizer->state()), expected) << type;
    EXPECT_EQ(optimizer->pending_state_bytes(), 0) << type;
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
  const std::vector<Parameter> parameters = golden_parameters();
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
            "the optimizer's state has 0 groups, the recipe has 1");
  EXPECT_EQ(load_complaint([](OptimizerState& s) { s.groups[0].parameters.pop_back(); }),
            "the optimizer's state has 3 parameters in group 0, the recipe puts 4 there");
  EXPECT_EQ(load_complaint([](OptimizerState& s) { s.groups[0].parameters[1].name = "x"; }),
            "the optimizer's state has 'x' where the recipe has 'fc.weight'");
  const auto slots = [](OptimizerState& s) -> std::vector<Parameter>& {
    return s.groups[0].parameters[1].slots;
  };
  EXPECT_EQ(load_complaint([&](OptimizerState& s) { slots(s).pop_back(); }),
            "the optimizer's state has no 'exp_avg_sq' for 'fc.weight'");
  EXPECT_EQ(load_complaint([&](OptimizerState& s) { slots(s)[1].local = at::tensor({1.0f}); }),
            "the optimizer's state has 'exp_avg' of shape [1] for 'fc.weight', which needs [4, 3]");
  EXPECT_EQ(load_complaint([&](OptimizerState& s) {
              slots(s).push_back({"momentum_buffer", at::tensor({1.0f})});
            }),
            "the optimizer's state has 'momentum_buffer' for 'fc.weight', which this optimizer "
            "does not have");
  EXPECT_EQ(load_complaint([&](OptimizerState& s) { slots(s).push_back(slots(s)[0]); }),
            "the optimizer's state has 'step' for 'fc.weight' twice");
}

}  // namespace
}  // namespace accel::optimizer_test
