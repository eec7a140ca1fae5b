// What every optimizer promises beyond its rule: state in and out, gradients, layouts.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

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
    p.mutable_grad() =
        golden_fill(p.sizes().vec(), 100 * step + static_cast<int64_t>(i)).to(p.scalar_type());
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

/// Copies of parameters and state.
std::vector<at::Tensor> tensors_of(const Optimizer& optimizer,
                                   const std::vector<Parameter>& parameters) {
  std::vector<at::Tensor> out;
  for (const Parameter& item : parameters) out.push_back(item.local.detach().clone());
  for (const OptimizerState::Group& group : optimizer.state().groups) {
    for (const OptimizerState::ParameterState& of : group.parameters) {
      for (const Parameter& slot : of.slots) out.push_back(slot.local.clone());
    }
  }
  return out;
}

void expect_equal(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& wanted,
                  const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(found[i].equal(wanted[i])) << what << " " << i;
  }
}

/// Of every optimizer that can skip updates, and of parameters of one type or two. The kernels of
/// `sgd` that read the flag round otherwise.
TEST(OptimizerTest, AFlagSkipsUpdates) {
  for (const std::string& type : all_optimizers()) {
    const std::string recipe = "{type: " + type + (type == "sgd" ? ", momentum: 0.9}" : "}");
    for (const bool is_mixed : {false, true}) {
      std::vector<Parameter> parameters = golden_parameters(), plain = golden_parameters();
      const std::set<std::string> of_one_type = {"adagrad", "adam", "adamw", "muon"};
      if (is_mixed && of_one_type.contains(type)) continue;
      for (std::vector<Parameter>* list : {&parameters, &plain}) {
        at::Tensor& last = list->back().local;
        if (is_mixed) last = last.detach().to(at::kBFloat16).requires_grad_();
      }
      const auto optimizer = build<Optimizer>(recipe, {parameters});
      const auto without = build<Optimizer>(recipe, {plain});
      auto& skips = dynamic_cast<SkipsUpdates&>(*optimizer);
      EXPECT_EQ(skips.can_skip(), type != "galore_adamw") << type;
      if (!skips.can_skip()) continue;
      const at::Tensor found_inf = at::zeros({});
      skips.set_found_inf(found_inf);
      train(*optimizer, parameters, 0, 2);
      train(*without, plain, 0, 2);
      if (type != "sgd" || is_mixed) {
        expect_equal(tensors_of(*optimizer, parameters), tensors_of(*without, plain), type);
      }
      const std::vector<at::Tensor> before = tensors_of(*optimizer, parameters);
      found_inf.fill_(1);
      take_gradients(parameters, 3);
      parameters[1].local.mutable_grad().fill_(std::numeric_limits<double>::infinity());
      parameters[3].local.mutable_grad().fill_(std::numeric_limits<double>::quiet_NaN());
      optimizer->step();
      expect_equal(tensors_of(*optimizer, parameters), before, type + " skips");
    }
  }
}

/// More elements than are copied together, to undo their update.
TEST(OptimizerTest, AFlagSkipsUpdatesOfLargeParameters) {
  const auto large = [] {
    std::vector<Parameter> parameters;
    for (const char* const name : {"a", "b"}) {
      parameters.push_back({name, at::ones({(1 << 23) + 1}).requires_grad_()});
      parameters.back().local.mutable_grad() = at::ones({(1 << 23) + 1});
    }
    return parameters;
  };
  const std::vector<Parameter> parameters = large(), plain = large();
  const auto optimizer = build<Optimizer>("lion", {parameters});
  const auto without = build<Optimizer>("lion", {plain});
  auto& skips = dynamic_cast<SkipsUpdates&>(*optimizer);
  skips.set_found_inf(at::zeros({}));
  optimizer->step();
  without->step();
  const std::vector<at::Tensor> before = tensors_of(*optimizer, parameters);
  expect_equal(before, tensors_of(*without, plain), "updated");
  skips.set_found_inf(at::ones({}));
  optimizer->step();
  expect_equal(tensors_of(*optimizer, parameters), before, "skipped");
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
