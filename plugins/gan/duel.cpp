// Two models and two optimizers: a generator after DCGAN (Radford et al., ICLR 2016) that learns to
// deceive a judge, which the task brings and trains.
//
// A task with models of its own lists them in models() and what trains them in optimizers(), and
// makes its step out of updates, one per optimizer. Gradients, clipping, precision, several ranks
// and checkpoints are as for any other task. What is drawn at random follows from the step and the
// sample here, so it is the same on any number of ranks and after any resume.
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/leaky_relu.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <memory>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "core/api/model.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

constexpr auto kDuelJudge = "judge";
constexpr int64_t kDuelScale = 4;  ///< two convolutions halve or double a side each
constexpr double kDuelLeak = 0.2;

void want_duel_images(const DataShape& data) {
  const Shape& image = data.input;
  if (image.size() == 3 && image[1] % kDuelScale == 0 && image[2] % kDuelScale == 0) return;
  throw Error(
      ExitCode::kRecipe,
      "'example/duel' wants images with sides that are multiples of 4, not " + to_string(image),
      "the transform 'resize' makes them fit");
}

/// A normalisation of each sample by itself, so that ranks need not share what they saw.
torch::nn::GroupNorm duel_norm(int64_t channels) {
  return torch::nn::GroupNorm(torch::nn::GroupNormOptions(1, channels));
}

struct DuelGeneratorOptions {
  int64_t latent = 16;
  int64_t features = 8;
};

class DuelGeneratorNet final : public torch::nn::Module {
 public:
  DuelGeneratorNet(const Shape& image, const DuelGeneratorOptions& options)
      : small_{-1, 2 * options.features, image[1] / kDuelScale, image[2] / kDuelScale} {
    using Options = torch::nn::ConvTranspose2dOptions;
    const auto doubling = [](int64_t in, int64_t out) {
      return torch::nn::ConvTranspose2d(Options(in, out, 4).stride(2).padding(1));
    };
    const int64_t features = options.features;
    first_ = register_module(
        "first", torch::nn::Linear(options.latent, 2 * features * small_[2] * small_[3]));
    norm1_ = register_module("norm1", duel_norm(2 * features));
    second_ = register_module("second", doubling(2 * features, features));
    norm2_ = register_module("norm2", duel_norm(features));
    third_ = register_module("third", doubling(features, image[0]));
  }

  at::Tensor forward(const at::Tensor& noise) {
    const at::Tensor small = norm1_->forward(first_->forward(noise).view(small_)).relu();
    const at::Tensor larger = norm2_->forward(second_->forward(small)).relu();
    return third_->forward(larger).tanh();
  }

 private:
  std::vector<int64_t> small_;
  torch::nn::Linear first_{nullptr};
  torch::nn::ConvTranspose2d second_{nullptr}, third_{nullptr};
  torch::nn::GroupNorm norm1_{nullptr}, norm2_{nullptr};
};

class DuelGenerator final : public Generator {
 public:
  static constexpr auto kName = "example/duel";
  static constexpr auto kSummary = "Draws images out of noise.";

  static Schema<DuelGeneratorOptions> schema() {
    return Schema<DuelGeneratorOptions>()
        .field("latent", &DuelGeneratorOptions::latent, "Random numbers that an image is made of.",
               at_least<int64_t>(1))
        .on_resume(Change::kImpossible)
        .field("features", &DuelGeneratorOptions::features,
               "Filters of the layer next to the image.", at_least<int64_t>(1))
        .on_resume(Change::kImpossible);
  }

  DuelGenerator(const DuelGeneratorOptions& options, const ModelContext& context)
      : latent_(options.latent) {
    want_duel_images(context.data);
    net_ = std::make_shared<DuelGeneratorNet>(context.data.input, options);
  }

  at::Tensor forward(const at::Tensor& noise) override { return net_->forward(noise); }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "example/duel"; }
  int64_t latent() const override { return latent_; }

 private:
  int64_t latent_;
  std::shared_ptr<DuelGeneratorNet> net_;
};

class DuelJudgeNet final : public torch::nn::Module {
 public:
  DuelJudgeNet(const Shape& image, int64_t features) {
    using Options = torch::nn::Conv2dOptions;
    const auto halving = [](int64_t in, int64_t out) {
      return torch::nn::Conv2d(Options(in, out, 4).stride(2).padding(1));
    };
    const int64_t cells = image[1] / kDuelScale * (image[2] / kDuelScale);
    first_ = register_module("first", halving(image[0], features));
    second_ = register_module("second", halving(features, 2 * features));
    norm_ = register_module("norm", duel_norm(2 * features));
    last_ = register_module("last", torch::nn::Linear(2 * features * cells, 1));
  }

  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor x = at::leaky_relu(first_->forward(images), kDuelLeak);
    const at::Tensor y = at::leaky_relu(norm_->forward(second_->forward(x)), kDuelLeak);
    return last_->forward(y.flatten(1));
  }

 private:
  torch::nn::Conv2d first_{nullptr}, second_{nullptr};
  torch::nn::GroupNorm norm_{nullptr};
  torch::nn::Linear last_{nullptr};
};

/// No recipe names it, so it is not registered.
class DuelJudge final : public Model {
 public:
  DuelJudge(const Shape& image, int64_t features)
      : net_(std::make_shared<DuelJudgeNet>(image, features)) {}

  at::Tensor forward(const at::Tensor& images) override { return net_->forward(images); }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "example/duel"; }

 private:
  std::shared_ptr<DuelJudgeNet> net_;
};

struct DuelOptions {
  int64_t judge_features = 8;
  Ref<Optimizer> judge_optimizer;
};

class Duel final : public Task {
 public:
  static constexpr auto kName = "example/duel";
  static constexpr auto kSummary = "A generator and a judge that learn from each other.";

  static Schema<DuelOptions> schema() {
    return Schema<DuelOptions>()
        .field("judge_features", &DuelOptions::judge_features,
               "Filters of the judge's layer next to the image.", at_least<int64_t>(1))
        .on_resume(Change::kImpossible)
        .field("judge_optimizer", &DuelOptions::judge_optimizer,
               "What trains the judge; the recipe's `optimizer` trains the generator.")
        .required();
  }

  Duel(const DuelOptions& options, const TaskContext& context)
      : judge_optimizer_(options.judge_optimizer) {
    want_duel_images(context.data);
    judge_ = std::make_unique<DuelJudge>(context.data.input, options.judge_features);
  }

  std::vector<TaskModel> models() override { return {{kDuelJudge, judge_.get()}}; }
  std::vector<TaskOptimizer> optimizers() override {
    return {{kDuelJudge, judge_optimizer_, {kDuelJudge}}};
  }

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }

  at::Tensor loss(Model& model, const Batch& batch) override { return evaluate(model, batch).loss; }

  /// Always of the same noise.
  Evaluation evaluate(Model& model, const Batch& batch) override {
    const at::Tensor made = make(model, batch, 0);
    return {judged(made, 1), made};
  }

  double step(StepContext& context) override {
    Model& generator = context.model();
    const int64_t step = context.step();
    const double judge_loss = context.update(kDuelJudge, [&](const Batch& batch) {
      return judged(batch.inputs, 1).add(judged(make(generator, batch, step).detach(), 0));
    });
    context.log("judge_loss", judge_loss);
    return context.update(kRecipeOptimizer, [&](const Batch& batch) {
      return judged(make(generator, batch, step), 1);
    });
  }

  std::vector<std::string> metrics() const override { return {}; }
  std::vector<std::string> default_metrics() const override { return {}; }

 private:
  /// An image for each sample of the batch.
  static at::Tensor make(Model& model, const Batch& batch, int64_t step) {
    auto* generator = dynamic_cast<Generator*>(&model);
    if (!generator) {
      throw Error(ExitCode::kRecipe,
                  "the task 'example/duel' wants a model that makes samples out of noise",
                  "the model 'example/duel' does");
    }
    const at::Tensor noise = at::empty({batch.size(), generator->latent()}, at::kFloat);
    auto* value = noise.mutable_data_ptr<float>();
    for (const int64_t id : batch.ids) {
      SampleRng rng(0, static_cast<uint64_t>(step), static_cast<uint64_t>(id));
      for (int64_t i = 0; i < generator->latent(); ++i) *value++ = static_cast<float>(rng.normal());
    }
    return generator->forward(noise.to(batch.inputs.device()));
  }

  /// How far the judge is from saying `real` of the images.
  at::Tensor judged(const at::Tensor& images, double real) {
    const at::Tensor said = judge_->forward(images).to(at::kFloat);
    return at::binary_cross_entropy_with_logits(said, at::full_like(said, real));
  }

  Ref<Optimizer> judge_optimizer_;
  std::unique_ptr<DuelJudge> judge_;
};

const Register<DuelGenerator> duel_generator;
const Register<Duel> duel;

}  // namespace
}  // namespace accel
