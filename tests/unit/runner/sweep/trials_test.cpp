#include "runner/sweep/trials.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/unit/runner/sweep/sweep_text.h"

namespace accel::trials_test {
namespace {

using Texts = std::vector<std::string>;

/// "seed=1 train.batch=8", of each trial.
Texts words_of(const std::string& text) {
  Texts out;
  for (const Trial& trial : trials_of(sweep_of(std::string("recipe: a.yaml\n").append(text)))) {
    std::string line;
    for (const TrialValue& value : trial.values) {
      line += (line.empty() ? "" : " ") + override_text(value);
    }
    out.push_back(line);
  }
  return out;
}

TEST(TrialsTest, AGridIsEveryCombination) {
  EXPECT_EQ(words_of("grid: {b: [1, 2], a: [x, 'y z']}\n"),
            (Texts{"a=x b=1", "a=x b=2", "a='y z' b=1", "a='y z' b=2"}));
}

TEST(TrialsTest, NothingIsSaidAsOnTheCommandLine) {
  EXPECT_EQ(words_of("grid: {data.eval: [~, [a, b]]}\n"),
            (Texts{"data.eval=~", "data.eval=[a, b]"}));
}

TEST(TrialsTest, PairedListsGoTogether) {
  EXPECT_EQ(words_of("paired: {a: [1, 2], b: [[8], [8, 8]]}\n"),
            (Texts{"a=1 b=[8]", "a=2 b=[8, 8]"}));
}

TEST(TrialsTest, SectionsMultiply) {
  EXPECT_EQ(words_of("paired: {a: [1, 2]}\ngrid: {b: [3, 4]}\n"),
            (Texts{"b=3 a=1", "b=3 a=2", "b=4 a=1", "b=4 a=2"}));
  EXPECT_EQ(words_of("grid: {b: [3, 4]}\n"
                     "random: {trials: 5, values: {c: {uniform: [0, 1]}}}\n")
                .size(),
            10u);
}

TEST(TrialsTest, NamesCount) {
  const std::vector<Trial> trials = trials_of(sweep_of("recipe: a.yaml\ngrid: {a: [1, 2]}\n"));
  ASSERT_EQ(trials.size(), 2u);
  EXPECT_EQ(trials[0].name, "trial_000");
  EXPECT_EQ(trials[1].name, "trial_001");
}

std::vector<double> draws(const std::string& range, int trials, const std::string& more = "") {
  std::string text = "recipe: a.yaml\nrandom: {seed: 3, trials: ";
  text.append(std::to_string(trials)).append(", values: {a: {").append(range).append("}");
  text.append(more).append("}}\n");
  std::vector<double> out;
  for (const Trial& trial : trials_of(sweep_of(text))) {
    out.push_back(std::stod(value_text(trial.values.front())));
  }
  return out;
}

TEST(TrialsTest, DrawsAreSpreadOverTheirRange) {
  double sum = 0;
  for (const double value : draws("uniform: [2, 4]", 1000)) {
    ASSERT_TRUE(value >= 2 && value < 4) << value;
    sum += value;
  }
  EXPECT_NEAR(sum / 1000, 3, 0.1);
  int low = 0;
  for (const double value : draws("log_uniform: [1e-4, 1]", 1000)) {
    ASSERT_TRUE(value >= 1e-4 && value <= 1) << value;
    low += value < 1e-2;
  }
  EXPECT_NEAR(low, 500, 60);
  std::set<double> whole;
  for (const double value : draws("int: [-1, 2]", 200)) whole.insert(value);
  EXPECT_EQ(whole, (std::set<double>{-1, 0, 1, 2}));
  std::set<double> chosen;
  for (const double value : draws("choice: [5, 7]", 50)) chosen.insert(value);
  EXPECT_EQ(chosen, (std::set<double>{5, 7}));
}

TEST(TrialsTest, ADrawDependsOnItsSeedItsNumberAndItsKeyAlone) {
  const std::vector<double> few = draws("uniform: [0, 1]", 3);
  std::vector<double> many = draws("uniform: [0, 1]", 10, ", b: {int: [1, 9]}");
  many.resize(3);
  EXPECT_EQ(few, many);
  EXPECT_EQ(std::set<double>(few.begin(), few.end()).size(), 3u);
  const std::vector<Trial> pair =
      trials_of(sweep_of("recipe: a.yaml\nrandom: {trials: 1, values: {a: {uniform: [0, 1]}, b: "
                         "{uniform: [0, 1]}}}\n"));
  EXPECT_NE(value_text(pair[0].values[0]), value_text(pair[0].values[1]));
}

TEST(TrialsTest, TooManyAreRefused) {
  std::string list = "[0";
  for (int i = 1; i < 200; ++i) list += ", " + std::to_string(i);
  try {
    words_of(std::string("grid: {a: ").append(list).append("], b: ").append(list).append("]}\n"));
    FAIL() << "40000 trials";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the sweep has more than 10000 trials");
    EXPECT_EQ(error.hint(), "sample some of them with 'random'");
  }
}

}  // namespace
}  // namespace accel::trials_test
