#include "parallel/power_sgd.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "parallel/strategy.h"
#include "tests/unit/parallel/ranks.h"
#include "tests/unit/parallel/run_passes.h"

namespace accel::power_sgd_test {
namespace {

using Json = nlohmann::json;

Json golden() {
  const char* source = std::getenv("ACCEL_SOURCE_DIR");
  std::ifstream file(std::string(source ? source : ".") + "/tests/interop/golden/power_sgd.json");
  return Json::parse(file);
}

std::vector<Parameter> parameters_of(const Json& shapes) {
  std::vector<Parameter> parameters;
  for (const auto& shape : shapes) {
    const auto sizes = shape.get<std::vector<int64_t>>();
    parameters.push_back({"p" + std::to_string(parameters.size()), at::zeros(sizes)});
    parameters.back().local.requires_grad_(true);
  }
  return parameters;
}

/// What make_golden_power_sgd.py gives a rank, as its part of the mean over `world`.
at::Tensor gradient(int64_t rank, int64_t step, size_t index, const at::Tensor& parameter,
                    int64_t world) {
  const at::Tensor made = at::empty(parameter.sizes(), at::kFloat);
  auto* values = made.mutable_data_ptr<float>();
  for (int64_t k = 0; k < made.numel(); ++k) {
    const double at = 0.37 * static_cast<double>((k + 1) * static_cast<int64_t>(index + 1));
    values[k] = static_cast<float>(std::sin(at + static_cast<double>(step + 2 * rank)));
  }
  return made.div(static_cast<double>(world));
}

/// One rank whose passes give these gradients.
class Rank {
 public:
  Rank(Communicator& group, const Json& golden, int64_t bucket_bytes = 25 << 20)
      : group_(group), parameters_(parameters_of(golden["shapes"])) {
    DdpOptions options;
    options.bucket_bytes = bucket_bytes;
    options.power_sgd = PowerSgdOptions{.rank = golden["rank"].get<int64_t>(),
                                        .start = golden["start"].get<int64_t>()};
    strategy_ = make_ddp({parameters_, {}, &group}, options);
  }

  /// The gradients after step `step`.
  std::vector<at::Tensor> step(int64_t step) {
    const StepLayout layout{
        .step = step, .num_micro_batches = group_.world(), .own = {group_.rank()}};
    run_passes(*strategy_, layout, [&](size_t) {
      at::Tensor loss = at::zeros({});
      for (size_t i = 0; i < parameters_.size(); ++i) {
        const at::Tensor& parameter = parameters_[i].local;
        loss = loss.add(
            parameter.mul(gradient(group_.rank(), step, i, parameter, group_.world())).sum());
      }
      loss.backward();
    });
    std::vector<at::Tensor> found;
    for (const Parameter& item : parameters_) {
      found.push_back(item.local.grad().clone());
      item.local.mutable_grad().reset();
    }
    return found;
  }

  Strategy& strategy() { return *strategy_; }

 private:
  Communicator& group_;
  std::vector<Parameter> parameters_;
  std::unique_ptr<Strategy> strategy_;
};

double apart(const at::Tensor& found, const Json& wanted) {
  double most = 0;
  const at::Tensor flat = found.flatten();
  const auto* values = flat.const_data_ptr<float>();
  for (size_t k = 0; k < wanted.size(); ++k) {
    most = std::max(most, std::abs(values[k] - wanted[k].get<double>()));
  }
  return most;
}

TEST(PowerSgdTest, GradientsAreThoseOfPyTorchsHook) {
  const Json wanted = golden();
  on_ranks(2, [&](Communicator& group) {
    Rank rank(group, wanted);
    for (size_t step = 0; step < wanted["steps"].size(); ++step) {
      const std::vector<at::Tensor> found = rank.step(static_cast<int64_t>(step) + 1);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_LT(apart(found[i], wanted["steps"][step][i]), 2e-5) << "step " << step << " " << i;
      }
    }
  });
}

TEST(PowerSgdTest, SeedsOfBucketsAreThoseOfPyTorchsState) {
  const auto wanted = golden()["seeds"].get<std::vector<uint64_t>>();
  EXPECT_EQ(power_sgd_seeds(0, wanted.size()), wanted);
}

TEST(PowerSgdTest, AllRanksGetTheSameBitsInAnyBuckets) {
  const Json plan = golden();
  std::vector<std::vector<at::Tensor>> made(3);
  on_ranks(3, [&](Communicator& group) {
    Rank rank(group, plan, 512);
    for (int64_t step = 1; step <= 4; ++step) {
      made[static_cast<size_t>(group.rank())] = rank.step(step);
    }
  });
  for (size_t i = 0; i < made[0].size(); ++i) {
    for (size_t rank = 1; rank < 3; ++rank) EXPECT_TRUE(at::equal(made[rank][i], made[0][i]));
  }
}

TEST(PowerSgdTest, WhatIsMissedIsSentLater) {
  Json plan = golden();
  plan["rank"] = 1;
  on_ranks(2, [&](Communicator& group) {
    Rank rank(group, plan);
    at::Tensor missed;
    double once = 0;
    for (int64_t step = 3; step <= 42; ++step) {
      at::Tensor here = rank.step(step)[3].neg();
      for (int64_t r = 0; r < 2; ++r) here.add_(gradient(r, step, 3, here, 2));
      if (step == 3) once = here.norm().item().toDouble();
      missed = missed.defined() ? missed.add(here) : here;
    }
    EXPECT_GT(once, 0.1) << "rank 1 was enough";
    // Forgotten, the 40 would have added up.
    EXPECT_LT(missed.norm().item().toDouble(), 10 * once);
  });
}

TEST(PowerSgdTest, GoesOnBitForBitFromItsState) {
  const Json plan = golden();
  on_ranks(2, [&](Communicator& group) {
    Rank straight(group, plan), other(group, plan);
    EXPECT_TRUE(straight.strategy().state().tensors.empty());
    for (int64_t step = 1; step <= 4; ++step) straight.step(step);
    StateDict saved = straight.strategy().state();
    for (auto& [name, tensor] : saved.tensors) tensor = tensor.clone();
    EXPECT_EQ(saved.tensors.size(), 2u);
    const std::vector<at::Tensor> wanted = straight.step(5);
    const std::vector<at::Tensor> fresh = other.step(5);
    EXPECT_FALSE(at::equal(fresh[3], wanted[3]));
    other.strategy().load(saved);
    const std::vector<at::Tensor> found = other.step(5);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(at::equal(found[i], wanted[i])) << i;
  });
}

TEST(PowerSgdTest, StateOfOtherGradientsIsRefused) {
  const Json plan = golden();
  SingleProcess alone;
  Rank rank(alone, plan);
  StateDict saved;
  saved.tensors = {{"bucket0/error", at::zeros({3})}, {"bucket0/guess", at::zeros({3})}};
  try {
    rank.strategy().load(saved);
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_EQ(std::string(error.what()),
              "the checkpoint's 'power_sgd' state does not fit the gradients");
    EXPECT_EQ(error.hint(), "restore the old values of 'accelerator.ddp'");
  }
}

}  // namespace
}  // namespace accel::power_sgd_test
