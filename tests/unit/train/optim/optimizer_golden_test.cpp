// Every optimizer against Python's, step by step and state by state.
#include <ATen/Version.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/api/optimizer.h"
#include "parallel/gradients.h"
#include "parallel/strategy.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/optim/golden.h"
#include "train/optim/hessian_estimate.h"

namespace accel::optimizer_golden_test {
namespace {

using Json = nlohmann::json;

const Json& golden() {
  static const Json json = read_golden("optimizers.json");
  return json;
}

/// What other vector instructions, or MKL for another maker's processors, may round otherwise.
double slack() {
  const bool is_intel = __builtin_cpu_is("intel") != 0;
  const bool is_alike =
      golden()["cpu"] == at::get_cpu_capability() && golden()["is_intel"] == is_intel;
  return is_alike ? 0 : 1e-6;
}

/// `tolerance` is a part of the largest wanted value; 0 wants the same bits.
void expect_values(const at::Tensor& tensor, const std::vector<float>& wanted, double tolerance,
                   const std::string& what) {
  const std::vector<float> values = values_of(tensor);
  ASSERT_EQ(values.size(), wanted.size()) << what;
  tolerance = std::max(tolerance, slack());
  double largest = 0;
  for (const float w : wanted) largest = std::max(largest, std::abs(double{w}));
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_LE(std::abs(double{values[i]} - double{wanted[i]}), tolerance * largest)
        << what << " [" << i << "]: " << values[i] << " for " << wanted[i];
  }
}

void take_gradients(std::vector<Parameter>& parameters, int64_t step) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& p = parameters[i].local;
    const bool skipped =
        golden()["skipped"][0] == step && golden()["skipped"][1] == parameters[i].name;
    const auto seed = 1000 + 10 * step + static_cast<int64_t>(i);
    p.mutable_grad() = skipped ? at::Tensor() : golden_fill(p.sizes().vec(), seed);
  }
}

/// Estimates of the Hessian, of the optimizers that make them.
void estimate(Optimizer& optimizer, const std::vector<Parameter>& parameters, int64_t step) {
  auto* estimates = dynamic_cast<UsesHessianEstimate*>(&optimizer);
  if (!estimates || !estimates->wants_estimate(step + 1)) return;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& p = parameters[i].local;
    const auto seed = 3000 + 10 * step + static_cast<int64_t>(i);
    p.mutable_grad() = golden_fill(p.sizes().vec(), seed);
  }
  constexpr double kLabels = 24;
  estimates->update_hessian(step + 1, kLabels);
  EXPECT_FALSE(estimates->wants_estimate(step + 1)) << "a repeated step estimates twice";
}

Json as_json(const HyperValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::monostate>) {
          return nullptr;
        } else {
          return v;
        }
      },
      value);
}

void expect_state(const OptimizerState& state, const Json& wanted, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(state.groups.size(), wanted.size()) << what;
  for (size_t g = 0; g < wanted.size(); ++g) {
    Json hyper = Json::object();
    for (const auto& [name, value] : state.groups[g].hyper) hyper[name] = as_json(value);
    EXPECT_EQ(hyper, wanted[g]["hyper"]) << what;
    ASSERT_EQ(state.groups[g].parameters.size(), wanted[g]["slots"].size()) << what;
    for (const OptimizerState::ParameterState& parameter : state.groups[g].parameters) {
      const Json& slots = wanted[g]["slots"].at(parameter.name);
      EXPECT_EQ(parameter.slots.size(), slots.size()) << what << " " << parameter.name;
      for (const Parameter& slot : parameter.slots) {
        ASSERT_TRUE(slots.contains(slot.name)) << what << " " << slot.name;
        expect_values(slot.local, slots[slot.name], tolerance, what + " " + slot.name);
      }
    }
  }
}

TEST(OptimizerGoldenTest, EveryStepIsPythons) {
  for (const Json& wanted : golden()["cases"]) {
    const std::string recipe = wanted["recipe"].dump();
    const double tolerance = wanted["tolerance"];
    std::vector<Parameter> parameters = golden_parameters();
    const auto optimizer = build<Optimizer>(recipe, {parameters});
    const std::vector<double> base = optimizer->base_lrs();
    for (size_t step = 0; step < wanted["trace"].size(); ++step) {
      estimate(*optimizer, parameters, static_cast<int64_t>(step));
      take_gradients(parameters, static_cast<int64_t>(step));
      std::vector<double> lrs = base;
      for (double& lr : lrs) lr *= 1 - static_cast<double>(step) / 8;
      optimizer->set_lrs(lrs);
      optimizer->step();
      for (const Parameter& p : parameters) {
        const std::string what = recipe + " step " + std::to_string(step) + " " + p.name;
        expect_values(p.local, wanted["trace"][step][p.name], tolerance, what);
      }
    }
    expect_state(optimizer->state(), wanted["state"], tolerance, recipe);
  }
}

TEST(OptimizerGoldenTest, EveryOptimizerHasACase) {
  Registry registry;
  Registration::enter_all(registry);
  for (const std::string& name : registry.of<Optimizer>().names()) {
    bool found = false;
    for (const Json& cases : {golden()["cases"], read_golden("package_optimizers.json")["cases"]}) {
      for (const Json& wanted : cases) found = found || wanted["recipe"]["type"] == name;
    }
    EXPECT_TRUE(found) << name;
  }
}

TEST(ClipGoldenTest, NormAndClippedGradientsHavePythonsBits) {
  for (const Json& wanted : golden()["clip"]) {
    const std::vector<Parameter> parameters = golden_parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& p = parameters[i].local;
      p.mutable_grad() = golden_fill(p.sizes().vec(), 2000 + static_cast<int64_t>(i));
    }
    const float norm = wanted["norm"];
    EXPECT_NEAR(gradient_norm(parameters).item<float>(), norm, slack() * norm);
    EXPECT_NEAR(make_single()->clip_grad_norm(parameters, wanted["max_norm"]).item<float>(), norm,
                slack() * norm);
    for (const Parameter& p : parameters) {
      expect_values(p.local.grad(), wanted["gradients"][p.name], 0, p.name);
    }
  }
}

}  // namespace
}  // namespace accel::optimizer_golden_test
