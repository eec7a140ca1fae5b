#include "runner/plan/memory_check.h"

#include <gtest/gtest.h>

#include "core/recipe/located_error.h"
#include "infer/model_texts.h"
#include "tests/unit/train/job/read_text.h"
#include "train/job/build_job.h"
#include "train/job/torch_setup.h"

namespace accel::memory_check_test {
namespace {

constexpr int64_t kMebibyte = 1 << 20;
constexpr auto kHint =
    "'accel-run plan RECIPE' lists the memory of a rank by purpose, and changes that make it fit";

struct Loaded {
  Registry registry = all_components();
  RecipeOptions recipe;
  Node resolved;
};

Loaded load(const std::string& model, const std::string& data, const std::string& more = "") {
  Loaded loaded;
  Diagnostics problems;
  Reading reading{problems, loaded.registry};
  const Node tree = parse_recipe("r.yaml", "model: " + model + "\ndata: {train: " + data +
                                               "}\ntrain: {until: 2 steps, batch: 4}\n" + more);
  loaded.recipe = read_recipe(tree, "r", reading);
  problems.check();
  loaded.resolved = resolve_recipe(loaded.recipe, tree);
  return loaded;
}

constexpr auto kGlyphs = "{type: synthetic/glyphs, length: 8}";
/// 784 x 1000 + 1000 + 1000 x 1000 + 1000 + 1000 x 10 + 10 weights: 6.85 MiB, four times in Adam.
constexpr auto kWide = "{type: mlp, hidden_sizes: [1000, 1000]}";

/// The refusal of a job on a machine, with its position; "" where the job is built.
std::string refusal_of(const std::string& model, const MachineMemory& machine,
                       const std::string& data = kGlyphs) {
  const Loaded loaded = load(model, data);
  const auto check = [&](const Job& job) {
    EXPECT_FALSE(job.model);
    check_memory(job, machine);
  };
  try {
    build_job(loaded.recipe, loaded.resolved, loaded.registry, {}, {texts_of, check});
  } catch (const LocatedError& error) {
    EXPECT_EQ(error.code(), ExitCode::kMemory);
    EXPECT_EQ(error.hint(), kHint);
    return std::to_string(error.problem().where.line) + ": " + error.what();
  }
  return "";
}

TEST(MemoryCheckTest, AStateBeyondTheMemoryIsRefusedBeforeTheModelIsBuilt) {
  set_threads(2);
  EXPECT_EQ(refusal_of(kWide, {27 * kMebibyte, 1}),
            "1: the model 'mlp' does not fit into memory: training needs 27.4 MiB (weights 6.85 "
            "MiB, gradients 6.85 MiB, optimizer state 13.7 MiB), and 27.0 MiB are available");
  EXPECT_EQ(threads(), 2);
}

TEST(MemoryCheckTest, AStateThatFitsIsNot) {
  EXPECT_EQ(refusal_of(kWide, {28 * kMebibyte, 1}), "");
  EXPECT_EQ(refusal_of(kWide, {0, 1}), "") << "unknown memory";
}

TEST(MemoryCheckTest, TheRanksOfAMachineAreCountedTogether) {
  EXPECT_EQ(refusal_of(kWide, {54 * kMebibyte, 2}),
            "1: the model 'mlp' does not fit into memory: training needs 54.8 MiB for 2 ranks (of "
            "each: weights 6.85 MiB, gradients 6.85 MiB, optimizer state 13.7 MiB), and 54.0 MiB "
            "are available");
  EXPECT_EQ(refusal_of(kWide, {56 * kMebibyte, 2}), "");
}

TEST(MemoryCheckTest, FrozenWeightsNeedNoGradients) {
  const std::string model =
      "{type: gpt, num_layers: 1, num_heads: 2, hidden_size: 256, lora: {rank: 1}}";
  const std::string data = "{type: synthetic/addition, length: 8}";
  EXPECT_EQ(refusal_of(model, {8 * kMebibyte, 1}, data), "");
  EXPECT_NE(refusal_of(model.substr(0, model.find(", lora")) + "}", {8 * kMebibyte, 1}, data), "");
}

/// The warning for a recipe whose data is not opened.
std::string warning_of(const Loaded& loaded, const MachineMemory& machine) {
  std::string out;
  for (const Diagnostic& warning :
       memory_warnings(loaded.recipe, loaded.resolved, loaded.registry, machine)) {
    EXPECT_EQ(warning.severity, Severity::kWarning);
    EXPECT_EQ(warning.hint, kHint);
    out += std::to_string(warning.where.line) + ": " + warning.message;
  }
  return out;
}

TEST(MemoryCheckTest, ARecipeForALargerMachineIsAWarning) {
  EXPECT_EQ(warning_of(load(kWide, kGlyphs), {15 * kMebibyte, 1}),
            "1: the model 'mlp' does not fit into this machine's memory: training needs at least "
            "15.3 MiB (weights 3.83 MiB, gradients 3.83 MiB, optimizer state 7.67 MiB), and 15.0 "
            "MiB are available");
  EXPECT_EQ(warning_of(load(kWide, kGlyphs), {16 * kMebibyte, 1}), "");
}

TEST(MemoryCheckTest, ShardsOfRanksCountAsShards) {
  const std::string ranks = "accelerator: {num_processes: 2, fsdp: {stage: 3}}\n";
  EXPECT_EQ(warning_of(load(kWide, kGlyphs, ranks), {16 * kMebibyte, 2}), "");
  EXPECT_NE(
      warning_of(load(kWide, kGlyphs, "accelerator: {num_processes: 2}\n"), {16 * kMebibyte, 2}),
      "");
}

TEST(MemoryCheckTest, EveryKindOfModelIsPlannedWithoutItsData) {
  const std::string text = "{type: synthetic/addition, length: 8}";
  for (const char* model :
       {"{type: gpt, num_layers: 1, num_heads: 2, hidden_size: 512}",
        "{type: llama, num_layers: 1, num_heads: 2, hidden_size: 512}",
        "{type: bert, num_layers: 1, num_heads: 2, hidden_size: 512}",
        "{type: vit, num_layers: 1, num_heads: 2, hidden_size: 512, patch_size: 8}",
        "{type: resnet, embedding_size: 64}", "{type: mlp, hidden_sizes: [64]}"}) {
    EXPECT_NE(warning_of(load(model, text), {1 << 10, 1}), "") << model;
  }
}

}  // namespace
}  // namespace accel::memory_check_test
