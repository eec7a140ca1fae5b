// Options of Llama that contradict each other.
#include <gtest/gtest.h>

#include "core/api/model.h"
#include "models/llama_options.h"
#include "tests/unit/build_component.h"

namespace accel::llama_options_test {
namespace {

/// The message for a Llama of heads of 8 features with these options.
std::string problem_with(const std::string& options) {
  ModelContext context;
  context.data = {.input = {6}, .input_type = DType::kI64, .vocab = 11};
  const std::string all = complaint<Model>(
      "{type: llama, num_layers: 2, num_heads: 2, hidden_size: 16, " + options + "}", context);
  const std::string start = "recipe.yaml:1:1: error: ";
  const std::string line = all.substr(0, all.find('\n'));
  return line.starts_with(start) ? line.substr(start.size()) : line;
}

TEST(LlamaOptionsTest, AnOptionThatCannotActIsAnError) {
  const std::pair<const char*, const char*> cases[] = {
      {"rope: {partial_rotary_factor: 0.4}",
       "the rotated part of a head must be even and more than 0, not 3 of 8"},
      {"rope: {partial_rotary_factor: 1.5}", "'partial_rotary_factor' must be at most 1"},
      {"rope: {attention_factor: 2}", "'attention_factor' has no effect without yarn or longrope"},
      {"rope: {short_factor: [1, 2]}", "'short_factor' has no effect without longrope"},
      {"rope: {scaling: longrope, short_factor: [1, 2], long_factor: [1, 2, 3, 4]}",
       "'short_factor' has 2 numbers, longrope wants one for each of the 4 pairs of a head"},
      {"rope: {scaling: dynamic, partial_rotary_factor: 0.25}",
       "'scaling: dynamic' wants at least 4 rotated features"},
      {"layer_types: [full_attention]", "'layer_types' has no effect without 'sliding_window'"},
      {"local_rope_theta: 50", "'local_rope_theta' has no effect without 'sliding_window'"},
      {"nope_layers: [2]", "'nope_layers' has 2, the layers are 0 to 1"},
      {"fused_projections: true, qk_norm: true",
       "'fused_projections' does not support 'qk_norm', as Phi-3"},
      {"head: span, scale_embeddings: true",
       "the model 'llama' with these options has no head for a span, as in transformers"},
      {"head: tokens, num_classes: 3", "'num_classes' has no effect with 'head: tokens'"},
      {"problem_type: regression", "'problem_type' has no effect without a head for classes"}};
  for (const auto& [options, message] : cases) EXPECT_EQ(problem_with(options), message);
  EXPECT_EQ(problem_with("rope: {partial_rotary_factor: 0.5}, nope_layers: [0, 1]"), "");
}

TEST(LlamaOptionsTest, TheTaskOfAHeadForTextsFollowsTargetsAndProblemType) {
  const auto task = [](const DataShape& targets, const std::string& options) {
    ModelContext context;
    context.data = targets;
    context.data.input = {6};
    context.data.input_type = DType::kI64;
    context.data.vocab = 11;
    return std::string(
        build<Model>("{type: llama, num_layers: 1, num_heads: 2, hidden_size: 16, " + options + "}",
                     context)
            ->default_task());
  };
  const DataShape numbers = {.target = {3}, .target_type = DType::kF32};
  EXPECT_EQ(task({.classes = 3}, "num_classes: 3"), "classification");
  EXPECT_EQ(task({.target_type = DType::kF32}, "num_classes: 1"), "regression");
  EXPECT_EQ(task(numbers, "num_classes: 3"), "multi_label_classification");
  EXPECT_EQ(task(numbers, "num_classes: 3, problem_type: regression"), "regression");
}

TEST(LlamaOptionsTest, TheTensorPlanHasTheNormsOfTheBlock) {
  LlamaOptions options;
  const auto norms = [&] {
    int64_t count = 0;
    for (const auto& item : llama_tensor_plan(options, 2)) {
      count += item.style == TensorStyle::kSequenceParallel;
    }
    return count;
  };
  EXPECT_EQ(norms(), 3);
  options.sandwich_norms = true;
  EXPECT_EQ(norms(), 5);
}

TEST(LlamaOptionsTest, TheTensorPlanDividesFusedProjectionsOfEqualBlocks) {
  LlamaOptions options;
  options.fused_projections = true;
  const auto entry = [&](const std::string& layer) {
    for (const auto& item : llama_tensor_plan(options, 2)) {
      if (item.layer == "model.layers.*." + layer) return item;
    }
    return TensorPlanEntry{"none", TensorStyle::kSequenceParallel, 0};
  };
  EXPECT_EQ(entry("self_attn.qkv_proj").style, TensorStyle::kColwise);
  EXPECT_EQ(entry("self_attn.qkv_proj").blocks, 3);
  EXPECT_EQ(entry("mlp.gate_up_proj").style, TensorStyle::kColwise);
  EXPECT_EQ(entry("mlp.gate_up_proj").blocks, 2);
  EXPECT_EQ(entry("mlp.gate_proj").layer, "none");
  options.num_kv_heads = {2};
  EXPECT_EQ(entry("self_attn.qkv_proj").style, TensorStyle::kReplicatedWithGradAllReduce);
}

}  // namespace
}  // namespace accel::llama_options_test
