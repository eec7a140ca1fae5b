// When a run has its optimizer take memory.
#include <gtest/gtest.h>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/job/make_job.h"
#include "tests/unit/train/optim/idle_optimizer.h"
#include "train/loop/run.h"

namespace accel::preallocate_state_test {
namespace {

std::string calls;  ///< of all optimizers below: r(eserve), s(tep)

class Reserving final : public IdleOptimizer {
 public:
  static constexpr auto kName = "reserving";
  static constexpr auto kSummary = "For tests.";
  struct Options {
    double lr = 1;
  };
  static Schema<Options> schema() { return Schema<Options>().field("lr", &Options::lr, "Rate."); }
  Reserving(const Options&, const OptimizerContext& context) : parameters_(context.parameters) {}

  void step() override { calls += 's'; }
  void zero_grad() override {
    for (const Parameter& item : parameters_) item.local.mutable_grad() = at::Tensor();
  }
  std::vector<Parameter> parameters() const override { return parameters_; }
  void preallocate_state() override { calls += 'r'; }

 private:
  std::vector<Parameter> parameters_;
};

const Register<Reserving> reserving;

TEST(ReserveTest, BeforeTheFirstStepAndOnce) {
  const TempFolder folder;
  const auto job = make_job(
      "model: {type: mlp, hidden_sizes: [4]}\n"
      "data: {train: {type: synthetic/glyphs, length: 64}}\n"
      "optimizer: reserving\n"
      "train: {until: 3 steps, batch: 8}\n"
      "checkpoint: {every: never, at_end: false}\n"
      "log: {plan: false}\n");
  calls.clear();
  RunRequest request;
  request.run_dir = folder.path("run");
  EXPECT_EQ(run_job(*job, request), ExitCode::kDone);
  EXPECT_EQ(calls, "rsss");
}

}  // namespace
}  // namespace accel::preallocate_state_test
