#include "train/recipe/recipe_diff.h"

#include <gtest/gtest.h>

#include <utility>

#include "core/base/error.h"
#include "tests/unit/train/job/read_text.h"

namespace accel::recipe_diff_test {
namespace {

Node resolved(const std::string& text) {
  const Registry registry = all_components();
  Diagnostics problems;
  Reading reading{problems, registry};
  const Node tree = parse_recipe("r.yaml", text);
  return resolve_recipe(read_recipe(tree, "r", reading), tree);
}

std::vector<RecipeChange> changes(const std::string& then, const std::string& now) {
  return diff_recipes(resolved(kLeast + then), resolved(kLeast + now),
                      RecipeOptions::schema().info(), all_components());
}

std::string refusal(const std::vector<RecipeChange>& changes,
                    const std::vector<std::string>& allowed) {
  try {
    check_changes(changes, allowed);
  } catch (const CheckpointError& error) {
    return std::string(error.what()) + "\nhint: " + error.hint();
  }
  return "";
}

TEST(RecipeDiffTest, EqualRecipesDifferInNothing) {
  EXPECT_TRUE(
      changes("optimizer: {lr: 0.01, type: sgd}\n", "optimizer: {type: sgd, lr: 1e-2}\n").empty());
}

TEST(RecipeDiffTest, LoggingAndSavingMayChangeFreely) {
  const auto found =
      changes("", "log: {every: 5 steps}\ncheckpoint: {keep: {last: 7}}\ntrackers: [csv]\n");
  EXPECT_GE(found.size(), 3u);
  for (const RecipeChange& change : found) EXPECT_EQ(change.change, Change::kFree) << change.key;
  EXPECT_EQ(refusal(found, {}), "");
}

TEST(RecipeDiffTest, AnotherRateNeedsConsent) {
  const auto found = changes("", "optimizer: {type: adamw, lr: 0.5}\n");
  EXPECT_EQ(refusal(found, {}),
            "the recipe has changed since the checkpoint:\n"
            "  optimizer.lr: was 0.001, is 0.5\n"
            "hint: to resume with the new values add --allow optimizer.lr");
  EXPECT_EQ(refusal(found, {"optimizer.lr"}), "");
  EXPECT_EQ(refusal(found, {"optimizer"}), "");
  EXPECT_NE(refusal(found, {"optimizer.l"}), "");
}

TEST(RecipeDiffTest, ComponentsDeclareTheChangesOfTheirOptions) {
  const auto change_of = [](const std::string& then, const std::string& now) {
    const std::string data = "data: {train: synthetic/glyphs}\n";
    const auto found = diff_recipes(resolved(then + data), resolved(now + data),
                                    RecipeOptions::schema().info(), all_components());
    return found.size() == 1 ? found[0].change : Change::kConsent;
  };
  EXPECT_EQ(change_of("model: {type: mlp, hidden_sizes: [8]}\n",
                      "model: {type: mlp, hidden_sizes: [9]}\n"),
            Change::kImpossible);
  EXPECT_EQ(change_of("model: {type: mlp}\n", "model: {type: mlp, dropout: 0.5}\n"),
            Change::kConsent);
  const std::string adapted = "model: {type: gpt, num_layers: 1, hidden_size: 8, lora: {rank: ";
  EXPECT_EQ(change_of(adapted + "2}}\n", adapted + "4}}\n"), Change::kImpossible);
  EXPECT_EQ(change_of(adapted + "2}}\n", adapted + "2, init: gaussian}}\n"), Change::kFree);
}

TEST(RecipeDiffTest, TheCommandsThatGoOnAreListed) {
  const auto hint = [](const std::vector<RecipeChange>& changes, const RunAgain& again) {
    try {
      check_changes(changes, {}, again);
    } catch (const CheckpointError& error) {
      return error.hint();
    }
    return std::string();
  };
  const RunAgain run = {"accel-run d.yaml", "accel-run d.yaml", "runs/d-2", "runs/d-old"};
  const std::vector<RecipeChange> rate = {{"optimizer.lr", "1", "2"}, {"train.batch", "3", "4"}};
  EXPECT_EQ(
      hint(rate, run),
      "use one of these commands:\n"
      "    accel-run d.yaml --allow optimizer.lr --allow train.batch  # resume with the change\n"
      "    accel-run d.yaml --new                                     # a new run in runs/d-2\n"
      "    accel-run d.yaml --fresh                                   "
      "# start over; the old run moves to runs/d-old");
  const std::vector<RecipeChange> type = {{"model.type", "mlp", "vit", Change::kImpossible}};
  EXPECT_EQ(hint(type, run),
            "use one of these commands:\n"
            "    accel-run d.yaml --new    # a new run in runs/d-2\n"
            "    accel-run d.yaml --fresh  # start over; the old run moves to runs/d-old");
  EXPECT_EQ(hint(type, {"accel-run resume runs/d", "accel-run runs/d/recipe.yaml", "runs/d-2", ""}),
            "use one of these commands:\n"
            "    accel-run runs/d/recipe.yaml --new  # a new run in runs/d-2");
}

TEST(RecipeDiffTest, ThreadsNeedNoConsent) {
  const auto found = changes("", "accelerator: {num_cpu_threads_per_process: 3}\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key, "accelerator.num_cpu_threads_per_process");
  EXPECT_EQ(refusal(found, {}), "");
}

TEST(RecipeDiffTest, AListIsOneValue) {
  const auto found = changes("smoke: {a: [1, 'b c']}\n", "smoke: {a: [1, b, c, '']}\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key, "smoke.a");
  EXPECT_EQ(found[0].then, "[1, 'b c']");
  EXPECT_EQ(found[0].now, "[1, b, c, '']");
  EXPECT_EQ(refusal({{"model.hidden_sizes", "[1]", "[2]"}}, {"model.hidden_sizes.0"}), "")
      << "a consent to change one item";
}

TEST(RecipeDiffTest, AnotherOptimizerIsImpossibleWhateverIsAllowed) {
  const auto found = changes("", "optimizer: {type: sgd, lr: 0.001}\n");
  EXPECT_EQ(refusal(found, {"optimizer"}),
            "the recipe no longer fits the checkpoint:\n"
            "  optimizer.type: was adamw, is sgd\n"
            "hint: start a new run under another 'name'");
}

TEST(RecipeDiffTest, ACallbackThatIsGoneIsAChange) {
  const auto found = changes("callbacks: [{type: ema, decay: 0.9}]\n", "");
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.back().now, "");
  EXPECT_NE(refusal(found, {}), "");
}

std::string refused_word(const std::string& word) {
  try {
    check_allowed({"optimizer", word}, RecipeOptions::schema().info(), all_components());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
    return std::string(error.what()) + "\nhint: " + error.hint();
  }
  return "";
}

TEST(RecipeDiffTest, WhatSomeRecipeMayHaveCanBeAllowed) {
  for (const char* word :
       {"optimizer.lr", "data", "data.train.0.path", "data.loader.workers", "model.type",
        "scheduler.warmup", "scheduler.1.for", "model.rope.theta", "optimizer.groups.0.lr",
        "vars.data", "smoke.train.until", "callbacks.0.decay", "accelerator.ddp.power_sgd.rank",
        "optimizer.bin", "scaler.pt", "random_states_0.pkl"}) {
    EXPECT_EQ(refused_word(word), "") << word;
  }
}

TEST(RecipeDiffTest, AWordThatNoRecipeHasCannotBeAllowed) {
  constexpr std::pair<const char*, const char*> kCases[] = {
      {"optimizer.lrr", "did you mean 'lr'?"},
      {"optimiser", "did you mean 'optimizer'?"},
      {"data.loader.worker", "did you mean 'workers'?"},
      {"train.until.steps", "'accel-run show RECIPE' prints every key"},
      {"lr", "'accel-run show RECIPE' prints every key"},
      {"", "'accel-run show RECIPE' prints every key"},
      {"optimizer.", "'accel-run show RECIPE' prints every key"},
  };
  for (const auto& [word, hint] : kCases) {
    EXPECT_EQ(refused_word(word),
              std::string("--allow: no recipe has '") + word + "'\nhint: " + hint);
  }
}

}  // namespace
}  // namespace accel::recipe_diff_test
