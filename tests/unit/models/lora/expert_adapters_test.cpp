// Adapters of experts that PEFT with transformers 5 loads, and those it does not.
#include "models/lora/expert_adapters.h"

#include <gtest/gtest.h>

#include "models/lora/lora_folder.h"

namespace accel::expert_adapters_test {
namespace {

constexpr auto kOneLayer = "model.layers.0.mlp.";
constexpr int64_t kExperts = 2;

/// Adapters of these layers of one block.
std::vector<NamedArray> adapter_of(const std::vector<std::string>& layers) {
  std::vector<NamedArray> out;
  for (const std::string& layer : layers) {
    out.push_back({kOneLayer + layer + kLoraA, Array(DType::kF32, {1, 2})});
    out.push_back({kOneLayer + layer + kLoraB, Array(DType::kF32, {2, 1})});
  }
  return out;
}

std::vector<std::string> experts_with(const std::vector<std::string>& projections,
                                      int64_t count = kExperts) {
  std::vector<std::string> out;
  for (int64_t i = 0; i < count; ++i) {
    for (const std::string& name : projections) {
      out.push_back("experts." + std::to_string(i) + "." + name);
    }
  }
  return out;
}

const std::vector<std::string> kAll = {"gate_proj", "up_proj", "down_proj"};

HfNames qwen3() {
  HfNames names;
  names.module.later = {{"gate", "experts"}};
  return names;
}

LoraOptions options(void (*change)(LoraOptions&) = nullptr) {
  LoraOptions out;
  out.rank = 1;
  if (change) change(out);
  return out;
}

std::string problem(const LoraOptions& lora, const std::vector<std::string>& layers,
                    const HfNames& names = qwen3()) {
  return peft_expert_problem(lora, adapter_of(layers), names, kExperts);
}

TEST(ExpertAdaptersTest, PeftLoadsWholeStacksOfKnownTypes) {
  EXPECT_EQ(problem(options(), experts_with(kAll)), "");
  EXPECT_EQ(problem(options(), experts_with({"down_proj"})), "");
  EXPECT_EQ(problem(options(), experts_with({"gate_proj", "up_proj"})), "");
  HfNames mixtral;
  mixtral.stored = [](const std::string& name) { return name; };
  EXPECT_EQ(problem(options(), experts_with(kAll), mixtral), "");
  EXPECT_EQ(problem(options(), experts_with(kAll), HfNames()),
            "does not load adapters of this model's experts");
  EXPECT_EQ(problem(options(), {"gate"}, HfNames()), "");
  EXPECT_EQ(problem(options(), {"gate"}), "");
  // A model without experts may have any adapter.
  EXPECT_EQ(peft_expert_problem(options(), adapter_of({"gate_proj"}), qwen3(), 0), "");
}

TEST(ExpertAdaptersTest, PeftStacksAllExpertsAndJoinsGateAndUp) {
  constexpr auto kWhole =
      "loads adapters of experts only if all of a layer have them, in both of 'gate_proj' and "
      "'up_proj' or in none";
  EXPECT_EQ(problem(options(), experts_with(kAll, 1)), kWhole);
  EXPECT_EQ(problem(options(), experts_with({"gate_proj"})), kWhole);
  EXPECT_EQ(problem(options(), experts_with({"up_proj", "down_proj"})), kWhole);
  EXPECT_EQ(problem(options(), {"gate_proj", "experts.0.down_proj", "experts.1.down_proj"}),
            "takes 'model.layers.0.mlp.gate_proj' for a layer of experts, and ignores its adapter");
}

TEST(ExpertAdaptersTest, PeftLacksOptionsForExperts) {
  constexpr auto kVariants =
      "loads no adapters of experts with 'dora', 'lora_bias' or the init pissa or olora";
  const auto all = experts_with(kAll);
  EXPECT_EQ(problem(options([](LoraOptions& o) { o.dora = true; }), all), kVariants);
  EXPECT_EQ(problem(options([](LoraOptions& o) { o.lora_bias = true; }), all), kVariants);
  EXPECT_EQ(problem(options([](LoraOptions& o) { o.init = LoraInit::kOlora; }), all), kVariants);
  EXPECT_EQ(problem(options([](LoraOptions& o) { o.dropout = 0.1; }), all),
            "loads adapters of experts only with a 'lora_dropout' of 0");
  constexpr auto kOwn =
      "gives 'model.layers.0.mlp.experts.0.up_proj' the rank and alpha of the other layers";
  const std::string pattern = "*experts.0.up_proj";
  LoraOptions own = options();
  own.alpha_pattern = {{pattern, 3}};
  EXPECT_EQ(problem(own, all), kOwn);
  own = options();
  own.rank_pattern = {{pattern, 2}};
  EXPECT_EQ(problem(own, all), kOwn);
  const LoraOptions rslora = options([](LoraOptions& o) { o.rslora = true; });
  EXPECT_EQ(problem(rslora, all),
            "scales the joined 'gate_proj' and 'up_proj' of experts otherwise with 'rslora'");
  EXPECT_EQ(problem(rslora, experts_with({"down_proj"})), "");
}

}  // namespace
}  // namespace accel::expert_adapters_test
