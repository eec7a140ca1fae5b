#include "compat/accelerate/accelerate_keys.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tests/unit/core/recipe_text.h"

namespace accel::environment_layer_test {
namespace {

/// The layer as one line with warnings below, or what is wrong.
std::string layer(const Variables& variables) {
  std::string out;
  const std::string problems = complaint([&](Diagnostics& diagnostics) {
    const EnvironmentLayer read = environment_layer(variables, diagnostics);
    out = outline(read.tree);
    for (const std::string& warning : read.warnings) out += "\n" + warning;
  });
  return problems.empty() ? out : problems;
}

TEST(EnvironmentLayerTest, VariablesBecomeOptions) {
  EXPECT_EQ(layer({{"ACCELERATE_DEBUG_MODE", "true"},
                   {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4"},
                   {"ACCELERATE_GRADIENT_CLIPPING", "1.0"},
                   {"ACCELERATE_MIXED_PRECISION", "bf16"},
                   {"ACCELERATE_USE_CPU", "1"}}),
            "{accelerator: {debug: collectives, mixed_precision: bf16, device: cpu}, "
            "train: {gradient_accumulation_steps: 4, max_grad_norm: 1.0}}");
}

TEST(EnvironmentLayerTest, WhatAccelerateItselfSetsIsTaken) {
  EXPECT_EQ(layer({{"ACCELERATE_DYNAMO_BACKEND", "NO"},
                   {"ACCELERATE_DYNAMO_MODE", "default"},
                   {"ACCELERATE_DYNAMO_USE_DYNAMIC", "False"},
                   {"ACCELERATE_DYNAMO_USE_FULLGRAPH", "False"},
                   {"ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION", "False"},
                   {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", ""},
                   {"ACCELERATE_MIXED_PRECISION", "no"},
                   {"ACCELERATE_USE_CPU", "False"},
                   {"ACCELERATE_USE_FSDP", "false"}}),
            "{accelerator: {mixed_precision: no}}");
}

TEST(EnvironmentLayerTest, APlaceNamesTheVariable) {
  Diagnostics problems;
  const EnvironmentLayer read =
      environment_layer({{"ACCELERATE_MIXED_PRECISION", "bf16"}}, problems);
  const Span where = read.tree.find("accelerator")->node.find("mixed_precision")->node.where;
  EXPECT_EQ(
      render({where, "no", ""}),
      "environment ACCELERATE_MIXED_PRECISION: error: no\n    ACCELERATE_MIXED_PRECISION=bf16\n"
      "                               ^\n");
}

TEST(EnvironmentLayerTest, WhatWouldChangeTheRunIsRefused) {
  const std::map<std::string, std::string> refused = {
      {"USE_SAGEMAKER", "it is of a job on Amazon SageMaker"},
      {"IN_TPU_POD", "accel-run does not support TPUs"},
      {"DOWNCAST_BF16", "accel-run does not support TPUs"},
      {"CPU_AFFINITY", "accel-run does not bind processes to the cores of a GPU"},
      {"DYNAMO_BACKEND", "libtorch has no torch.compile"},
  };
  for (const auto& [name, reason] : refused) {
    const std::string all = "ACCELERATE_" + name;
    EXPECT_EQ(layer({{all, "true"}}), "environment " + all + ": error: '" + all +
                                          "=true' is not supported: " + reason + "\n    " + all +
                                          "=true\n" + std::string(all.size() + 5, ' ') +
                                          "^\n  hint: unset it\n");
    EXPECT_EQ(layer({{all, "False"}}), "{}");
  }
  EXPECT_EQ(layer({{"ACCELERATE_TORCH_DEVICE", "cuda"}}), "{accelerator: {device: cuda}}");
  EXPECT_EQ(layer({{"ACCELERATE_USE_CPU", "perhaps"}}),
            "environment ACCELERATE_USE_CPU: error: 'ACCELERATE_USE_CPU=perhaps' is neither true "
            "nor false\n    ACCELERATE_USE_CPU=perhaps\n                       ^\n");
}

/// What `accelerate launch --mixed_precision fp8 --fp8_backend te` of 1.15 sets.
TEST(EnvironmentLayerTest, Fp8IsTaken) {
  EXPECT_EQ(layer({{"ACCELERATE_FP8_AMAX_COMPUTE_ALGO", "most_recent"},
                   {"ACCELERATE_FP8_AMAX_HISTORY_LEN", "1024"},
                   {"ACCELERATE_FP8_BACKEND", "te"},
                   {"ACCELERATE_FP8_FORMAT", "HYBRID"},
                   {"ACCELERATE_FP8_INTERVAL", "1"},
                   {"ACCELERATE_FP8_MARGIN", "0"},
                   {"ACCELERATE_FP8_OPT_LEVEL", "O2"},
                   {"ACCELERATE_FP8_OVERRIDE_DGRAD", "False"},
                   {"ACCELERATE_FP8_OVERRIDE_FPROP", "False"},
                   {"ACCELERATE_FP8_OVERRIDE_WGRAD", "True"},
                   {"ACCELERATE_FP8_PAD_INNER_DIM", "True"},
                   {"ACCELERATE_FP8_USE_AUTOCAST_DURING_EVAL", "False"},
                   {"ACCELERATE_MIXED_PRECISION", "fp8"}}),
            "{accelerator: {fp8: {amax_compute_algo: most_recent, amax_history_len: 1024, recipe: "
            "delayed, filter: [], format: hybrid, interval: 1, margin: 0, pad_inner_dim: true, "
            "override_linear_precision: [wgrad]}, mixed_precision: fp8}}");
  EXPECT_EQ(layer({{"ACCELERATE_FP8_BACKENDS", "te"}}),
            "{}\nenvironment ACCELERATE_FP8_BACKENDS: 'ACCELERATE_FP8_BACKENDS' has no effect: "
            "Accelerate has no such variable; did you mean 'ACCELERATE_FP8_BACKEND'?");
}

TEST(EnvironmentLayerTest, WhatChangesNothingIsTold) {
  EXPECT_EQ(layer({{"ACCELERATE_LOG_LEVEL", "info"}}),
            "{}\nenvironment ACCELERATE_LOG_LEVEL: 'ACCELERATE_LOG_LEVEL=info' has no effect: "
            "accel-run has no log levels");
  EXPECT_EQ(layer({{"ACCELERATE_MIXED_PRECISON", "bf16"}}),
            "{}\nenvironment ACCELERATE_MIXED_PRECISON: 'ACCELERATE_MIXED_PRECISON' has "
            "no effect: Accelerate has no such variable; did you mean "
            "'ACCELERATE_MIXED_PRECISION'?");
}

/// What `accelerate launch --use_fsdp` of 1.15 sets, shortened.
TEST(EnvironmentLayerTest, WhatLaunchSetsForShardingIsTaken) {
  EXPECT_EQ(layer({{"ACCELERATE_USE_FSDP", "true"},
                   {"FSDP_AUTO_WRAP_POLICY", "TRANSFORMER_BASED_WRAP"},
                   {"FSDP_CPU_RAM_EFFICIENT_LOADING", "false"},
                   {"FSDP_MIN_NUM_PARAMS", "100000000"},
                   {"FSDP_OFFLOAD_PARAMS", "false"},
                   {"FSDP_RESHARD_AFTER_FORWARD", "true"},
                   {"FSDP_SHARDING_STRATEGY", "SHARD_GRAD_OP"},
                   {"FSDP_TRANSFORMER_CLS_TO_WRAP", "GPT2Block,BertLayer"},
                   {"FSDP_VERSION", "1"},
                   {"MEGATRON_LM_TP_DEGREE", "None"}}),
            "{accelerator: {fsdp: {stage: 2}}}");
  EXPECT_EQ(layer({{"ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", "none"},
                   {"ACCELERATE_DEEPSPEED_ZERO3_INIT", "true"},
                   {"ACCELERATE_DEEPSPEED_ZERO_STAGE", "3"},
                   {"ACCELERATE_USE_DEEPSPEED", "true"}}),
            "{accelerator: {fsdp: {stage: 3}}, train: {max_grad_norm: 1}}\n"
            "environment ACCELERATE_USE_DEEPSPEED: without 'gradient_clipping', Accelerate clips "
            "gradients to the norm 1: so does this run, unless the recipe has "
            "'train.max_grad_norm'");
  EXPECT_EQ(layer({{"ACCELERATE_GRADIENT_CLIPPING", "0.5"}, {"ACCELERATE_USE_DEEPSPEED", "true"}}),
            "{train: {max_grad_norm: 0.5}, accelerator: {fsdp: {stage: 2}}}");
  EXPECT_EQ(layer({{"ACCELERATE_USE_PARALLELISM_CONFIG", "true"},
                   {"PARALLELISM_CONFIG_CP_BACKEND", "torch"},
                   {"PARALLELISM_CONFIG_DP_REPLICATE_SIZE", "2"},
                   {"PARALLELISM_CONFIG_DP_SHARD_SIZE", "4"},
                   {"PARALLELISM_CONFIG_TP_SIZE", "1"}}),
            "{accelerator: {parallelism: {dp_replicate: 2, dp_shard: 4}}}");
}

TEST(EnvironmentLayerTest, ShardingThatIsOffOrUnknownIsTold) {
  EXPECT_EQ(layer({{"FSDP_VERSION", "2"}}),
            "{}\nenvironment FSDP_VERSION: 'FSDP_VERSION=2' has no effect without "
            "ACCELERATE_USE_FSDP=true");
  EXPECT_EQ(layer({{"FSDP_VERSON", "2"}}),
            "{}\nenvironment FSDP_VERSON: 'FSDP_VERSON' has no effect: Accelerate has no such "
            "variable; did you mean 'FSDP_VERSION'?");
  EXPECT_EQ(layer({{"ACCELERATE_USE_PARALLELISM_CONFIG", "true"}}),
            "{}\nenvironment ACCELERATE_USE_PARALLELISM_CONFIG: "
            "'ACCELERATE_USE_PARALLELISM_CONFIG=true' has no effect: no sizes are given");
  EXPECT_EQ(layer({{"ACCELERATE_USE_MEGATRON_LM", "true"},
                   {"MEGATRON_LM_CONTEXT_PARALLEL_SIZE", "1"},
                   {"MEGATRON_LM_GRADIENT_CLIPPING", "1.0"},
                   {"MEGATRON_LM_SEQUENCE_PARALLELISM", "true"},
                   {"MEGATRON_LM_TP_DEGREE", "2"}}),
            "{train: {max_grad_norm: 1.0}, accelerator: {parallelism: {sequence_parallel: true, "
            "tp: 2}}}");
}

TEST(EnvironmentLayerTest, OnlyAcceleratesVariablesAreLookedAt) {
  setenv("ACCELERATE_TEST_ONLY", "a=b", 1);
  setenv("NOT_ACCELERATE_TEST_ONLY", "1", 1);
  bool found = false;
  for (const auto& [name, value] : accelerate_variables()) {
    EXPECT_FALSE(name.starts_with("NOT_")) << name;
    found = found || (name == "ACCELERATE_TEST_ONLY" && value == "a=b");
  }
  EXPECT_TRUE(found);
  unsetenv("ACCELERATE_TEST_ONLY");
}

}  // namespace
}  // namespace accel::environment_layer_test
