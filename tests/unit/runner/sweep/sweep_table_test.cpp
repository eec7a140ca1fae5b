#include "runner/sweep/journal.h"

#include <gtest/gtest.h>

#include "tests/unit/runner/sweep/sweep_text.h"

namespace accel::sweep_table_test {
namespace {

using Lines = std::vector<std::string>;

TEST(SweepTableTest, TrialsAreListedUnderTheirKeys) {
  const SweepOptions sweep = sweep_of(
      "recipe: a.yaml\npaired: {model.hidden_sizes: [[8], [64, 64]], name_of: [a, 'b c']}\n");
  EXPECT_EQ(trial_lines(trials_of(sweep)),
            (Lines{"trial      model.hidden_sizes  name_of", "trial_000  [8]                 a",
                   "trial_001  [64, 64]            b c"}));
}

TEST(SweepTableTest, TheBestIsFirstAndEachSaysHowItStands) {
  const SweepOptions sweep = sweep_of(
      "recipe: a.yaml\ngrid: {seed: [1, 2, 3, 4]}\n"
      "stages: [{until: 10 steps}, {until: 20 steps, promote: {keep: 1}}]\n");
  const std::vector<Trial> trials = trials_of(sweep);
  SweepProgress progress(sweep, trials.size());
  progress.add({.trial = 0, .stage = 0, .step = 10, .values = {{"eval/loss", 0.51234567}}});
  progress.add({.trial = 1, .stage = 0, .step = 10, .values = {{"eval/loss", 0.25}}});
  progress.add({.trial = 2, .stage = 0, .failed = true, .code = 9, .step = 4});
  EXPECT_EQ(ranking_lines(sweep, trials, progress),
            (Lines{"trial      eval/loss  step  state         seed",
                   "trial_001  0.2500     10    stage 1 of 2  2",
                   "trial_000  0.5123     10    stage 1 of 2  1",
                   "trial_002             4     failed (9)    3",
                   "trial_003                   to come       4"}));
  progress.add({.trial = 3, .stage = 0, .step = 10});
  progress.add({.trial = 1, .stage = 1, .step = 20, .values = {{"eval/loss", 0.2}}});
  EXPECT_EQ(ranking_lines(sweep, trials, progress)[1],
            "trial_001  0.2000     20    done          2");
  progress.add({.trial = 1, .stage = 1, .code = 1, .step = 20, .values = {{"eval/loss", 0.2}}});
  EXPECT_EQ(ranking_lines(sweep, trials, progress)[1],
            "trial_001  0.2000     20    missed        2")
      << "above those that were eliminated";
  progress.add({.trial = 1, .stage = 1, .step = 20, .values = {{"eval/loss", 2e-5}}});
  EXPECT_EQ(ranking_lines(sweep, trials, progress)[1],
            "trial_001  2.000e-05  20    done          2");
  EXPECT_EQ(ranking_lines(sweep, trials, progress)[2],
            "trial_000  5.123e-01  10    stage 1 of 2  1");
}

}  // namespace
}  // namespace accel::sweep_table_test
