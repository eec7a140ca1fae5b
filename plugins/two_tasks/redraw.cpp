// Two things to learn at once, from one trunk: which class an image is of, and to draw it anew.
//
// The model gives both outputs side by side, and the task knows which is which, weighs the two
// losses and shows each beside their sum. Metrics look at what evaluate() gives them.
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <string>
#include <vector>

#include "core/api/model.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

void want_redraw_data(const DataShape& data) {
  if (data.classes > 0 && data.input_type == DType::kF32) return;
  throw Error(ExitCode::kRecipe, "'example/redraw' wants images or numbers, and their classes",
              "choose a dataset that has classes");
}

struct RedrawNetOptions {
  int64_t hidden_size = 64;
};

class RedrawNetLayers final : public torch::nn::Module {
 public:
  RedrawNetLayers(int64_t inputs, int64_t hidden, int64_t classes) {
    trunk_ = register_module("trunk", torch::nn::Linear(inputs, hidden));
    classes_ = register_module("classes", torch::nn::Linear(hidden, classes));
    drawing_ = register_module("drawing", torch::nn::Linear(hidden, inputs));
  }

  at::Tensor forward(const at::Tensor& inputs) {
    const at::Tensor seen = trunk_->forward(inputs.flatten(1)).relu();
    return at::cat({classes_->forward(seen), drawing_->forward(seen)}, 1);
  }

 private:
  torch::nn::Linear trunk_{nullptr}, classes_{nullptr}, drawing_{nullptr};
};

class RedrawNet final : public Model {
 public:
  static constexpr auto kName = "example/redraw";
  static constexpr auto kSummary = "A layer that tells classes apart and remembers what it saw.";

  static Schema<RedrawNetOptions> schema() {
    return Schema<RedrawNetOptions>()
        .field("hidden_size", &RedrawNetOptions::hidden_size,
               "Numbers that an image becomes in between.", at_least<int64_t>(1))
        .on_resume(Change::kImpossible)
        .renamed_from("hidden");
  }

  RedrawNet(const RedrawNetOptions& options, const ModelContext& context) {
    want_redraw_data(context.data);
    layers_ = std::make_shared<RedrawNetLayers>(count_of(context.data.input), options.hidden_size,
                                                context.data.classes);
  }

  at::Tensor forward(const at::Tensor& inputs) override { return layers_->forward(inputs); }
  torch::nn::Module& module() override { return *layers_; }
  const char* default_task() const override { return "example/redraw"; }

 private:
  std::shared_ptr<RedrawNetLayers> layers_;
};

struct RedrawOptions {
  double drawing_weight = 1;
};

class Redraw final : public Task {
 public:
  static constexpr auto kName = "example/redraw";
  static constexpr auto kSummary = "Classification, and drawing the image anew beside it.";

  static Schema<RedrawOptions> schema() {
    return Schema<RedrawOptions>().field("drawing_weight", &RedrawOptions::drawing_weight,
                                         "What the loss of the drawing counts; the other counts 1.",
                                         at_least(0.0));
  }

  Redraw(const RedrawOptions& options, const TaskContext& context)
      : options_(options), classes_(context.data.classes) {
    want_redraw_data(context.data);
  }

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }

  at::Tensor loss(Model& model, const Batch& batch) override { return sum_of(learn(model, batch)); }

  Evaluation evaluate(Model& model, const Batch& batch) override {
    const Parts parts = learn(model, batch);
    return {sum_of(parts), parts.logits};
  }

  double step(StepContext& context) override {
    // Of this rank: both losses, summed over samples, and the samples.
    const at::Tensor sums = at::full({3}, 0, at::TensorOptions(at::kDouble));
    auto* sum = sums.mutable_data_ptr<double>();
    const double loss = context.update(kRecipeOptimizer, [&](const Batch& batch) {
      const Parts parts = learn(context.model(), batch);
      sum[0] += parts.classes.item().toDouble() * weight(batch);
      sum[1] += parts.drawing.item().toDouble() * weight(batch);
      sum[2] += weight(batch);
      return sum_of(parts);
    });
    const at::Tensor all = context.ranks().reduce(sums, Reduce::kSum);
    const auto* total = all.const_data_ptr<double>();
    context.log("classes_loss", total[0] / total[2]);
    context.log("drawing_loss", total[1] / total[2]);
    return loss;
  }

  std::vector<std::string> metrics() const override { return {"accuracy", "f1", "top_k"}; }
  std::vector<std::string> default_metrics() const override { return {"accuracy"}; }

 private:
  struct Parts {
    at::Tensor classes, drawing;  ///< losses
    at::Tensor logits;
  };

  Parts learn(Model& model, const Batch& batch) const {
    const at::Tensor output = model.forward_batch(batch).to(at::kFloat);
    const at::Tensor wanted = batch.inputs.flatten(1);
    if (output.dim() != 2 || output.size(1) != classes_ + wanted.size(1)) {
      throw Error(ExitCode::kRecipe,
                  "the task 'example/redraw' wants " + std::to_string(classes_ + wanted.size(1)) +
                      " numbers for each sample, but the model's output is " +
                      to_string(Shape(output.sizes().begin(), output.sizes().end())),
                  "the model 'example/redraw' gives them");
    }
    const at::Tensor logits = output.narrow(1, 0, classes_);
    const at::Tensor drawn = output.narrow(1, classes_, wanted.size(1));
    return {at::cross_entropy_loss(logits, batch.targets), at::mse_loss(drawn, wanted), logits};
  }

  at::Tensor sum_of(const Parts& parts) const {
    return parts.classes.add(parts.drawing, options_.drawing_weight);
  }

  RedrawOptions options_;
  int64_t classes_;
};

const Register<RedrawNet> redraw_net;
const Register<Redraw> redraw;

}  // namespace
}  // namespace accel
