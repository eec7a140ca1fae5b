// What a compiled model cannot be asked for.
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "models/program/precompiled_model.h"
#include "tests/unit/train/job/make_job.h"

namespace accel::precompiled_model_test {
namespace {

struct StoneOptions {
  bool bare = false;
};

class Stone final : public PrecompiledModel {
 public:
  static constexpr auto kName = "stone";
  static constexpr auto kSummary = "A linear layer, or nothing, that says it was compiled.";

  static Schema<StoneOptions> schema() {
    return Schema<StoneOptions>().field("bare", &StoneOptions::bare, "Without weights.");
  }

  Stone(const StoneOptions& options, const ModelContext& context) {
    if (options.bare) return;
    net_->push_back(torch::nn::Linear(count_of(context.data.input), context.data.classes));
  }

  at::Tensor forward_batch(const Batch& batch) override {
    return net_->forward(batch.inputs.flatten(1));
  }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "classification"; }

 private:
  torch::nn::Sequential net_;
};

const Register<Stone> stone;

std::string stone_complaint(const std::string& model, const std::string& accelerator,
                            const World& world = {}) {
  try {
    make_job("model: " + model +
                 "\ndata: {train: {type: synthetic/glyphs, length: 64}}\n"
                 "train: {until: 1 step, batch: 16}\naccelerator: {" +
                 accelerator + "}\n",
             world);
  } catch (const RecipeError& error) {
    return error.what();
  }
  return "";
}

TEST(FixedModelTest, TakesNoOtherTypesAndNoOtherDevice) {
  EXPECT_EQ(stone_complaint("stone", "mixed_precision: 'no'"), "");
  EXPECT_EQ(stone_complaint("stone", "mixed_precision: bf16"),
            "r.yaml:4:32: error: 'mixed_precision' has no effect: the model 'stone' was compiled "
            "with fixed types\n"
            "    accelerator: {mixed_precision: bf16}\n"
            "                                   ^\n"
            "  hint: leave 'mixed_precision' out, or use the model 'exported'\n");
  World other;
  other.device = at::kMeta;  // there is one on any machine, and what has no weights moves to it
  EXPECT_NE(stone_complaint("{type: stone, bare: true}", "device: auto", other)
                .find("the model 'stone' was compiled for the CPU"),
            std::string::npos);
}

}  // namespace
}  // namespace accel::precompiled_model_test
