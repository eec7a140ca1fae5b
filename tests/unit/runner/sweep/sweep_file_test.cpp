#include "runner/sweep/sweep_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/recipe/json_schema.h"
#include "core/recipe/schema.h"
#include "tests/unit/runner/sweep/sweep_text.h"

namespace accel::sweep_file_test {
namespace {

TEST(SweepFileTest, EveryKeyIsRead) {
  const SweepOptions sweep = sweep_of(
      "recipe: ../digits.yaml\n"
      "name: search\n"
      "grid: {optimizer.lr: [0.1, 0.2], 'model.hidden_sizes': [[8], [8, 8]]}\n"
      "paired: {train.batch: [8, 16], seed: [1, 2]}\n"
      "random:\n"
      "  trials: 3\n"
      "  seed: 7\n"
      "  values: {model.dropout: {uniform: [0, 0.5]}, optimizer.type: {choice: [sgd, adamw]}}\n"
      "overrides: {log.every: 1}\n"
      "stages: [{until: 10 steps}, {until: 2 epochs, promote: {keep: 2, metric: eval/f1, mode: "
      "max}}]\n"
      "ranking: {metric: eval/accuracy, mode: max}\n"
      "parallel: 4\n");
  EXPECT_EQ(sweep.recipe, "digits.yaml");
  EXPECT_EQ(sweep.recipe_position.column, 9);
  EXPECT_EQ(sweep.name, "search");
  EXPECT_EQ(sweep.grid.at("model.hidden_sizes").size(), 2u);
  EXPECT_EQ(sweep.paired.at("seed").size(), 2u);
  EXPECT_EQ(sweep.random.trials, 3);
  EXPECT_EQ(sweep.random.seed, 7);
  EXPECT_EQ(sweep.random.values.at("model.dropout").high, 0.5);
  EXPECT_EQ(sweep.random.values.at("optimizer.type").choices.size(), 2u);
  EXPECT_EQ(sweep.overrides.size(), 1u);
  ASSERT_EQ(sweep.stages.size(), 2u);
  EXPECT_EQ(sweep.stages[1].promote->keep, 2);
  EXPECT_EQ(sweep.parallel, 4);
  EXPECT_EQ(metrics_of(sweep), (std::vector<std::string>{"eval/accuracy", "eval/f1"}));
  EXPECT_EQ(sweep.metric_positions.at("eval/accuracy").line, 11);
  EXPECT_EQ(sweep.metric_positions.at("eval/f1").line, 10);
}

TEST(SweepFileTest, OldNamesOfMetricsAreReadWithAWarning) {
  const SweepOptions sweep = sweep_of(
      "recipe: builtin:readme\n"
      "grid: {seed: [1, 2]}\n"
      "stages: [{until: 5 steps}, {until: 1 epoch, promote: {keep: 1, by: eval/f1}}]\n"
      "ranking: {by: eval/accuracy, mode: max}\n");
  EXPECT_EQ(metrics_of(sweep), (std::vector<std::string>{"eval/accuracy", "eval/f1"}));
  EXPECT_EQ(sweep.metric_positions.at("eval/accuracy").column, 15);
  ASSERT_EQ(sweep.deprecations.size(), 2u);
  EXPECT_EQ(sweep.deprecations[1].message, "'by' is called 'metric' now");
  EXPECT_EQ(sweep.deprecations[1].where.line, 4);
}

TEST(SweepFileTest, DefaultsAreTheFilesName) {
  const SweepOptions sweep = sweep_of("recipe: builtin:readme\ngrid: {seed: [1, 2]}\n");
  EXPECT_EQ(sweep.recipe, "builtin:readme");
  EXPECT_EQ(sweep.name, "lr");
  EXPECT_EQ(sweep.parallel, 1);
  EXPECT_EQ(metrics_of(sweep), std::vector<std::string>{"eval/loss"});
}

struct WrongSweep {
  const char* text;
  const char* error;
};

class WrongSweepTest : public testing::TestWithParam<WrongSweep> {};

TEST_P(WrongSweepTest, IsReportedInItsPlace) {
  EXPECT_EQ(sweep_error(std::string("recipe: a.yaml\n").append(GetParam().text)), GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongSweepTest,
    testing::Values(
        WrongSweep{"parallel: 2\n",
                   "sweeps/lr.yaml:1:1: error: there are no values to try\n"
                   "    recipe: a.yaml\n    ^\n"
                   "  hint: add 'grid', 'random' or 'paired'\n"},
        WrongSweep{"grids: {seed: [1]}\n",
                   "sweeps/lr.yaml:2:1: error: unknown option 'grids'\n"
                   "    grids: {seed: [1]}\n    ^\n"
                   "  hint: did you mean 'grid'?\n"},
        WrongSweep{"grid: {seed: []}\n",
                   "sweeps/lr.yaml:2:8: error: 'seed' has no values to try\n"
                   "    grid: {seed: []}\n           ^\n"
                   "  hint: give a list, such as [1, 2]\n"},
        WrongSweep{"paired: {a: [1, 2], b: [1]}\n",
                   "sweeps/lr.yaml:2:21: error: 'b' has 1 values, and 'a' has 2\n"
                   "    paired: {a: [1, 2], b: [1]}\n                        ^\n"
                   "  hint: paired lists must have equal lengths\n"},
        WrongSweep{"grid: {a: [1]}\npaired: {a: [2]}\n",
                   "sweeps/lr.yaml:3:10: error: 'a' is in both 'grid' and 'paired'\n"
                   "    paired: {a: [2]}\n             ^\n"
                   "  hint: leave one of the two out\n"},
        WrongSweep{"grid: {name: [x]}\n",
                   "sweeps/lr.yaml:2:8: error: a sweep sets the names of its trials\n"
                   "    grid: {name: [x]}\n           ^\n"
                   "  hint: leave 'name' out here; their names begin with the sweep's 'name'\n"},
        WrongSweep{"grid: {train.until: [9]}\nstages: [{until: 5 steps}]\n",
                   "sweeps/lr.yaml:2:8: error: 'train.until' is set by 'stages'\n"
                   "    grid: {train.until: [9]}\n           ^\n"
                   "  hint: leave one of the two out\n"},
        WrongSweep{"random: {trials: 3}\n",
                   "sweeps/lr.yaml:2:1: error: 'random' has no values to draw\n"
                   "    random: {trials: 3}\n    ^\n  hint: add 'values'\n"},
        WrongSweep{"random: {values: {a: {uniform: [0, 1]}}}\n",
                   "sweeps/lr.yaml:2:1: error: 'random' has no number of trials\n"
                   "    random: {values: {a: {uniform: [0, 1]}}}\n    ^\n"
                   "  hint: add 'trials: 10'\n"}));

INSTANTIATE_TEST_SUITE_P(
    Ranges, WrongSweepTest,
    testing::Values(
        WrongSweep{"random: {trials: 1, values: {a: [1, 2]}}\n",
                   "sweeps/lr.yaml:2:33: error: 'a' wants 'uniform: [low, high]', 'log_uniform: "
                   "[low, high]', 'int: [low, high]' or 'choice: [...]', not a list\n"
                   "    random: {trials: 1, values: {a: [1, 2]}}\n"
                   "                                    ^\n"},
        WrongSweep{"random: {trials: 1, values: {a: {uniform: [2, 1]}}}\n",
                   "sweeps/lr.yaml:2:43: error: 'uniform' needs low < high\n    random: {trials: "
                   "1, values: {a: {uniform: [2, 1]}}}\n"
                   "                                              ^\n"
                   "  hint: write [low, high]\n"},
        WrongSweep{"random: {trials: 1, values: {a: {log_uniform: [0, 1]}}}\n",
                   "sweeps/lr.yaml:2:48: error: 'log_uniform' needs positive numbers\n"
                   "    random: {trials: 1, values: {a: {log_uniform: [0, 1]}}}\n"
                   "                                                   ^\n"
                   "  hint: use 'uniform' for a range that includes 0\n"},
        WrongSweep{"random: {trials: 1, values: {a: {int: [1]}}}\n",
                   "sweeps/lr.yaml:2:39: error: 'int' wants two numbers, [low, high], not a list\n"
                   "    random: {trials: 1, values: {a: {int: [1]}}}\n"
                   "                                          ^\n"},
        WrongSweep{"random: {trials: 1, values: {a: {int: [1, 2.5]}}}\n",
                   "sweeps/lr.yaml:2:43: error: 'int' wants a whole number, not '2.5'\n"
                   "    random: {trials: 1, values: {a: {int: [1, 2.5]}}}\n"
                   "                                              ^\n"},
        WrongSweep{"random: {trials: 1, values: {a: {choice: 5}}}\n",
                   "sweeps/lr.yaml:2:42: error: 'choice' wants a list of values, not '5'\n"
                   "    random: {trials: 1, values: {a: {choice: 5}}}\n"
                   "                                             ^\n"}));

INSTANTIATE_TEST_SUITE_P(
    Stages, WrongSweepTest,
    testing::Values(
        WrongSweep{"grid: {a: [1]}\nstages: [{until: 5 steps, promote: {keep: 1}}]\n",
                   "sweeps/lr.yaml:3:27: error: the first stage has no trials to promote\n"
                   "    stages: [{until: 5 steps, promote: {keep: 1}}]\n"
                   "                              ^\n"
                   "  hint: 'promote' selects from the trials of the previous stage\n"},
        WrongSweep{"grid: {a: [1]}\nstages: [{until: 1 epochs}, {until: 9 steps}]\n",
                   "sweeps/lr.yaml:3:18: error: a stage before the last must end after a number of "
                   "steps, not '1 epoch'\n"
                   "    stages: [{until: 1 epochs}, {until: 9 steps}]\n"
                   "                     ^\n  hint: write '100 steps'\n"},
        WrongSweep{"grid: {a: [1]}\nstages: [{until: 9 steps}, {until: 9 steps}]\n",
                   "sweeps/lr.yaml:3:36: error: a stage must end later than the previous one\n"
                   "    stages: [{until: 9 steps}, {until: 9 steps}]\n"
                   "                                       ^\n"},
        WrongSweep{"grid: {a: [1, 2], b: [3, 4]}\n"
                   "stages: [{until: 5 steps}, {until: 9 steps, promote: {keep: 5}}]\n",
                   "sweeps/lr.yaml:3:61: error: 'keep' is 5, and 4 trials enter this stage\n"
                   "    stages: [{until: 5 steps}, {until: 9 steps, promote: {keep: 5}}]\n"
                   "                                                                ^\n"
                   "  hint: keep fewer, or leave 'promote' out to keep all\n"},
        WrongSweep{
            "random: {trials: 3, values: {a: {int: [1, 9]}}}\npaired: {b: [1, 2]}\n"
            "stages: [{until: 5}, {until: 9, promote: {keep: 1}}, {until: 12, promote: {keep: "
            "2}}]\n",
            "sweeps/lr.yaml:4:82: error: 'keep' is 2, and 1 trial enters this stage\n"
            "    stages: [{until: 5}, {until: 9, promote: {keep: 1}}, {until: 12, promote: "
            "{keep: 2}}]\n"
            "                                                                              "
            "       ^\n"
            "  hint: keep fewer, or leave 'promote' out to keep all\n"}));

INSTANTIATE_TEST_SUITE_P(
    Repeats, WrongSweepTest,
    testing::Values(WrongSweep{"grid: {a: [1e-3, 2, 0.001]}\n",
                               "sweeps/lr.yaml:2:21: error: 'a' has the value 0.001 twice\n"
                               "    grid: {a: [1e-3, 2, 0.001]}\n                        ^\n"
                               "  hint: leave one out: equal trials produce equal runs\n"},
                    WrongSweep{"grid: {a: [[8], [8, 8], [8]]}\n",
                               "sweeps/lr.yaml:2:25: error: 'a' has the value [8] twice\n"
                               "    grid: {a: [[8], [8, 8], [8]]}\n                            ^\n"
                               "  hint: leave one out: equal trials produce equal runs\n"}));

TEST(SweepFileTest, TrialsAsAMapAreSearchedInGridAndANumberInRandom) {
  EXPECT_EQ(sweep_error("recipe: a.yaml\ntrials: {optimizer.lr: [0.1]}\ngrid: {a: [1]}\n"),
            "sweeps/lr.yaml:2:1: error: unknown option 'trials'\n"
            "    trials: {optimizer.lr: [0.1]}\n"
            "    ^\n"
            "  hint: write 'grid: {KEY: [VALUES]}' for every combination, 'random: {trials: 10, "
            "values: ...}' to draw them, or 'paired'\n");
  EXPECT_TRUE(sweep_error("recipe: a.yaml\ntrials: 10\ngrid: {a: [1]}\n")
                  .ends_with("  hint: write 'trials: 10' inside the section 'random'\n"));
}

TEST(SweepFileTest, ValuesThatDifferAreNoRepeats) {
  EXPECT_EQ(sweep_error("recipe: a.yaml\ngrid: {a: [1, '1', 2, true, ~, [1], x, X, nan]}\n"
                        "stages: [{until: 5}, {until: 9, promote: {keep: 9}}]\n"),
            "");
}

TEST(SweepFileTest, TheSchemaIsOfTheSameDeclaration) {
  const auto schema = nlohmann::json::parse(json_schema(SweepOptions::schema().info(), Registry()));
  const std::string text = schema.dump();
  for (const char* key :
       {"\"grid\"", "\"paired\"", "\"log_uniform\"", "\"stages\"", "\"ranking\""}) {
    EXPECT_NE(text.find(key), text.npos) << key;
  }
}

TEST(SweepFileTest, TheSchemaTellsWhatIsInAStage) {
  const auto root = nlohmann::json::parse(json_schema(SweepOptions::schema().info(), Registry()));
  const std::string text = root["properties"]["stages"].dump();
  for (const char* part : {R"("required":["until"])", R"("additionalProperties":false)",
                           R"("keep":{"description":"Number of trials that enter the stage.")",
                           R"("enum":["min","max"])"}) {
    EXPECT_NE(text.find(part), text.npos) << part << " is not in " << text;
  }
}

}  // namespace
}  // namespace accel::sweep_file_test
