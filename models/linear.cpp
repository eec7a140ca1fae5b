// Linear and logistic regression.
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include "core/api/model.h"
#include "core/recipe/registry.h"
#include "models/layers/input_spec.h"
#include "models/layers/sizes.h"

namespace accel {
namespace {

struct LinearOptions {
  Auto<int64_t> inputs;
  Auto<int64_t> outputs;
};

class LinearModel final : public Model, public InputSpec {
 public:
  static constexpr auto kName = "linear";
  static constexpr auto kSummary = "One affine map: linear or logistic regression.";

  static Schema<LinearOptions> schema() {
    return Schema<LinearOptions>()
        .field("inputs", &LinearOptions::inputs, "Numbers in one sample.",
               if_given<Auto>(at_least<int64_t>(1)))
        .on_resume(Change::kImpossible)
        .field("outputs", &LinearOptions::outputs, "Classes, or numbers to predict.",
               if_given<Auto>(at_least<int64_t>(1)))
        .on_resume(Change::kImpossible);
  }

  LinearModel(const LinearOptions& options, const ModelContext& context)
      : input_(context.data.input), numeric_(has_numeric_targets(context.data)) {
    const DataShape& data = context.data;
    want_numbers(kName, data);
    const int64_t features = data.input.empty() ? 0 : count_of(data.input);
    const int64_t inputs = equal_size({kName, "inputs", options.inputs, features});
    const int64_t outputs = equal_size({kName, "outputs", options.outputs, output_count(data)});
    layer_ = torch::nn::Linear(inputs, outputs);
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    return layer_->forward(inputs.flatten(1));
  }
  torch::nn::Module& module() override { return *layer_; }
  const char* default_task() const override { return numeric_ ? "regression" : "classification"; }
  void validate_input(const DataShape& data) const override {
    check_one_shape(kName, input_, data);
  }

 private:
  Shape input_;
  torch::nn::Linear layer_{nullptr};
  bool numeric_;
};

const Register<LinearModel> linear;

}  // namespace
}  // namespace accel
