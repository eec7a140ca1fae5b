// An optimizer that acts on whole parameters only.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/unit/train/job/make_job.h"
#include "tests/unit/train/optim/idle_optimizer.h"

namespace accel::whole_optimizer_test {
namespace {

class WholeOnly final : public IdleOptimizer {
 public:
  static constexpr auto kName = "whole_only";
  static constexpr auto kSummary = "For tests.";
  struct Options {
    double lr = 1;
  };
  static Schema<Options> schema() { return Schema<Options>().field("lr", &Options::lr, "Rate."); }
  WholeOnly(const Options&, const OptimizerContext&) {}
};

const Register<WholeOnly> whole_only;

TEST(WholeOptimizerTest, IsRefusedWithShardedParameters) {
  try {
    make_job(
        "model: {type: mlp, hidden_sizes: [4]}\n"
        "data: {train: {type: synthetic/glyphs, length: 64}}\n"
        "optimizer: whole_only\n"
        "accelerator: {fsdp: {stage: 1}}\n");
    ADD_FAILURE();
  } catch (const RecipeError& error) {
    ASSERT_EQ(error.diagnostics().size(), 1U);
    EXPECT_EQ(error.diagnostics()[0].message,
              "'fsdp' does not support the optimizer 'whole_only', which needs whole parameters");
    EXPECT_EQ(error.diagnostics()[0].hint,
              "use adamw, adam, sgd, lion, adagrad, rmsprop, muon or adafactor");
  }
}

}  // namespace
}  // namespace accel::whole_optimizer_test
