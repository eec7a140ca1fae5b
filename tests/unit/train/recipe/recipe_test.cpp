#include "train/recipe/recipe.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/train/job/read_text.h"
#include "train/recipe/saved_recipe.h"

namespace accel::recipe_test {
namespace {

TEST(RecipeTest, TheLeastRecipeGetsAnOptimizerAScheduleAndAName) {
  const RecipeOptions recipe = read_text(kLeast);
  EXPECT_EQ(recipe.name, "r");
  EXPECT_EQ(recipe.optimizer.type, "adamw");
  ASSERT_EQ(recipe.scheduler.phases.size(), 1u);
  EXPECT_EQ(recipe.scheduler.phases[0].component.type, "constant");
  EXPECT_FALSE(recipe.task) << "the model says which";
}

TEST(RecipeTest, ASingleDatasetIsWrittenBackAsOne) {
  const RecipeOptions recipe =
      read_text("model: mlp\ndata: {train: {type: synthetic/glyphs, limit: 9}}\n");
  const Node written = Codec<DatasetParts>::write(recipe.data.train);
  ASSERT_TRUE(written.map());
  EXPECT_EQ(written.find("limit")->node.scalar()->text, "9");
}

TEST(RecipeTest, AResolvedRecipeReadsBackToItself) {
  const Registry registry = all_components();
  Diagnostics problems;
  Reading reading{problems, registry};
  const Node tree = parse_recipe("r.yaml", std::string(kLeast) +
                                               "scheduler: [{type: linear, for: 5%}, cosine]\n"
                                               "expect: {train/loss: '< 1'}\n"
                                               "callbacks: [ema]\n");
  const Node resolved = resolve_recipe(read_recipe(tree, "r", reading), tree);
  const Node again = parse_recipe("r.yaml", to_yaml(resolved));
  EXPECT_EQ(to_yaml(resolve_recipe(read_recipe(again, "r", reading), again)), to_yaml(resolved));
}

TEST(RecipeTest, ASavedRecipeKeepsTheOriginsOfItsValues) {
  const std::string text =
      "name: a  # b                        # job.yaml:3\n"
      "seed: 7                             # argument 2\n"
      "model:\n"
      "  type: mlp                         # default\n"
      "train: {batch: 8}\n"
      "list:                               # job.yaml:9\n"
      "  - 1\n"
      "  - 2\n"
      "each:\n"
      "  - 3                               # job.yaml:7\n";
  const std::string saved = std::filesystem::absolute("runs/a/recipe.yaml").string();
  const Node tree = parse_recipe("./runs/a/recipe.yaml", text);
  const auto origin = [&](const Node& node) { return origin_through(node, saved); };
  EXPECT_EQ(origin(tree.find("name")->node), "job.yaml:3");
  EXPECT_EQ(origin(tree.find("seed")->node), "argument 2");
  EXPECT_EQ(origin(tree.find("model")->node.find("type")->node), "default");
  EXPECT_EQ(origin(tree.find("train")->node), "./runs/a/recipe.yaml:5") << "by hand";
  EXPECT_EQ(origin(tree.find("list")->node), "job.yaml:9");
  EXPECT_EQ(origin((*tree.find("list")->node.list())[1]), "job.yaml:9");
  EXPECT_EQ(origin((*tree.find("each")->node.list())[0]), "job.yaml:7");
  EXPECT_EQ(origin(parse_recipe("b.yaml", text).find("seed")->node), "b.yaml:2");
  EXPECT_EQ(origin(scalar_node("1")), "default");
}

TEST(RecipeTest, HeldOutSamplesAreAShareOrANumber) {
  const auto split = [](const std::string& value) {
    return "model: mlp\ndata: {train: synthetic/glyphs, split: {" + value + "}}\n";
  };
  EXPECT_EQ(read_text(split("eval: 12.5%")).data.split.eval->percent, 12.5);
  EXPECT_EQ(read_text(split("eval: 64")).data.split.eval->samples, 64);
  EXPECT_EQ(to_string(*read_text(split("eval: 64")).data.split.eval), "64 samples");
  EXPECT_TRUE(has_eval_data(read_text(split("eval: 64, seed: 3, stratify: false"))));
  EXPECT_FALSE(has_eval_data(read_text(kLeast)));
  EXPECT_EQ(complaint_about(split("eval: 0.1")),
            "r.yaml:2:47: error: 'eval' wants a share such as '10%' or a number of samples or "
            "'none', not '0.1'\n"
            "    data: {train: synthetic/glyphs, split: {eval: 0.1}}\n"
            "                                                  ^\n"
            "  hint: write 10%\n");
  EXPECT_EQ(complaint_about(split("group: user, seed: 4")),
            "r.yaml:2:48: error: 'group' has no effect: nothing is held out\n"
            "    data: {train: synthetic/glyphs, split: {group: user, seed: 4}}\n"
            "                                                   ^\n"
            "  hint: add 'eval: 10%', or leave it out\n"
            "r.yaml:2:60: error: 'seed' has no effect: nothing is held out\n"
            "    data: {train: synthetic/glyphs, split: {group: user, seed: 4}}\n"
            "                                                               ^\n"
            "  hint: add 'eval: 10%', or leave it out\n");
  EXPECT_EQ(complaint_about(
                "model: mlp\n"
                "data: {train: synthetic/glyphs, eval: synthetic/glyphs, split: {eval: 9}}\n"),
            "r.yaml:2:57: error: 'split' and 'eval' exclude each other\n"
            "    data: {train: synthetic/glyphs, eval: synthetic/glyphs, split: {eval: 9}}\n"
            "                                                            ^\n"
            "  hint: 'split' draws eval data from 'train': leave one of the two out\n");
}

TEST(RecipeTest, FirstSamplesAndDrawnSamplesExcludeEachOther) {
  EXPECT_EQ(
      complaint_about("model: mlp\ndata: {train: {type: synthetic/glyphs, limit: 9, head: 3}}\n"),
      "r.yaml:2:56: error: 'head' and 'limit' exclude each other\n"
      "    data: {train: {type: synthetic/glyphs, limit: 9, head: 3}}\n"
      "                                                           ^\n"
      "  hint: 'head' takes the first samples, 'limit' draws from all\n");
}

TEST(SavedRecipeTest, OldValuesAreReplaced) {
  const auto replaced = [](const std::string& dataset) {
    Node recipe = parse_recipe("r.yaml", "data: {train: " + dataset + "}\n");
    replace_old_values(recipe);
    return detail::inline_text(recipe.find("data")->node.find("train")->node);
  };
  EXPECT_EQ(replaced("{type: a, weight: none, limit: 9}"), "{type: a, weight: none, head: 9}");
  EXPECT_EQ(replaced("[{type: a, weight: 1, limit: 9}, {type: b, weight: 1, limit: none}]"),
            "[{type: a, weight: 1, head: 9}, {type: b, weight: 1, head: none}]");
  EXPECT_EQ(replaced("{type: chat, prompt: '', completion: ''}"), "{type: chat, completion: ''}");
  for (const std::string same : {"{type: a, weight: none, limit: 9, head: none}",
                                 "{type: a, limit: 9}", "a", "{type: chat, prompt: [a]}"}) {
    EXPECT_EQ(replaced(same), same);
  }
}

struct BadRecipe {
  const char* text;
  const char* complaint;
};

class BadRecipeTest : public testing::TestWithParam<BadRecipe> {};

TEST_P(BadRecipeTest, IsRefusedWithTheseWords) {
  EXPECT_EQ(complaint_about(std::string(kLeast) + GetParam().text), GetParam().complaint);
}

INSTANTIATE_TEST_SUITE_P(
    Recipe, BadRecipeTest,
    testing::Values(
        BadRecipe{"trian: {batch: 3}\n",
                  "r.yaml:3:1: error: unknown option 'trian'\n"
                  "    trian: {batch: 3}\n"
                  "    ^\n"
                  "  hint: did you mean 'train'?\n"},
        BadRecipe{"train: {batch: 12, micro_batch: 5}\n",
                  "r.yaml:3:33: error: batch 12 is not a multiple of micro_batch 5\n"
                  "    train: {batch: 12, micro_batch: 5}\n"
                  "                                    ^\n"},
        BadRecipe{"train: {batch: 12, micro_batch: 5, gradient_accumulation_steps: 2}\n",
                  "r.yaml:3:65: error: batch 12 is not 5 micro x 2 accumulated\n"
                  "    train: {batch: 12, micro_batch: 5, gradient_accumulation_steps: 2}\n"
                  "                                                                    ^\n"
                  "  hint: leave one of the three out: it follows from the others\n"},
        BadRecipe{
            "accelerator: {num_processes: 3, num_machines: 2}\n",
            "r.yaml:3:30: error: 3 processes cannot be divided evenly among 2 machines\n"
            "    accelerator: {num_processes: 3, num_machines: 2}\n"
            "                                 ^\n"
            "  hint: 'num_processes' is the total over all machines\n"
            "r.yaml:3:47: error: 'main_process_ip' is missing\n"
            "    accelerator: {num_processes: 3, num_machines: 2}\n"
            "                                                  ^\n"
            "  hint: give the address of machine 0, the same on all machines\n"
            "r.yaml:3:47: error: 'main_process_port' is missing\n"
            "    accelerator: {num_processes: 3, num_machines: 2}\n"
            "                                                  ^\n"
            "  hint: give a free port of machine 0, the same on all machines, such as 29500\n"},
        BadRecipe{"expect: {eval/loss: '< 1'}\n",
                  "r.yaml:3:1: error: 'eval/loss' is expected, but the recipe has no eval data\n"
                  "    expect: {eval/loss: '< 1'}\n"
                  "    ^\n"
                  "  hint: add 'data.eval' or 'data.split'\n"},
        BadRecipe{"scheduler: [linear, cosine]\n",
                  "r.yaml:3:13: error: a phase before the last one has no 'for'\n"
                  "    scheduler: [linear, cosine]\n"
                  "                ^\n"
                  "  hint: give its duration: 'for: 10%' or 'for: 500 steps'\n"},
        BadRecipe{"checkpoint: {keep: {metric: eval/accuracy, mode: max}}\n",
                  "r.yaml:3:29: error: 'metric' ranks the best checkpoints, but none are kept\n"
                  "    checkpoint: {keep: {metric: eval/accuracy, mode: max}}\n"
                  "                                ^\n"
                  "  hint: add 'best: 1', or leave it out\n"
                  "r.yaml:3:50: error: 'mode' ranks the best checkpoints, but none are kept\n"
                  "    checkpoint: {keep: {metric: eval/accuracy, mode: max}}\n"
                  "                                                     ^\n"
                  "  hint: add 'best: 1', or leave it out\n"},
        BadRecipe{"eval: {every: 0 steps}\n",
                  "r.yaml:3:15: error: 'every' must be more than nothing, not 0 steps\n"
                  "    eval: {every: 0 steps}\n"
                  "                  ^\n"},
        BadRecipe{"checkpoint: {every: [3 epochs, 0 min]}\n",
                  "r.yaml:3:32: error: 'every' must be more than nothing, not [3 epochs, "
                  "0 s]\n"
                  "    checkpoint: {every: [3 epochs, 0 min]}\n"
                  "                                   ^\n"},
        BadRecipe{"scheduler: {type: step, every: 0 epochs}\n",
                  "r.yaml:3:32: error: 'every' must be more than nothing, not 0 epochs\n"
                  "    scheduler: {type: step, every: 0 epochs}\n"
                  "                                   ^\n"},
        BadRecipe{"name: ../up\n",
                  "r.yaml:3:7: error: 'name' must be at most 64 letters, digits, '.', '_' or '-', "
                  "not '../up'\n"
                  "    name: ../up\n"
                  "          ^\n"}));

TEST(ExpectationTest, ComparesAsItReads) {
  EXPECT_TRUE((Expectation{Expectation::Op::kAtLeast, 0.9}.met(0.9)));
  EXPECT_FALSE((Expectation{Expectation::Op::kMore, 0.9}.met(0.9)));
  EXPECT_TRUE((Expectation{Expectation::Op::kAtMost, 0.9}.met(0.9)));
  EXPECT_FALSE((Expectation{Expectation::Op::kLess, 0.9}.met(0.9)));
  EXPECT_EQ(to_string(Expectation{Expectation::Op::kLess, 0.5}), "< 0.5");
}

}  // namespace
}  // namespace accel::recipe_test
