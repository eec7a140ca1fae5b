// Generative adversarial training (Goodfellow et al., NIPS 2014): the recipe's model generates
// samples from noise, a discriminator separates them from the data's.
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randn.h>

#include <memory>
#include <string>
#include <vector>

#include "core/api/model.h"
#include "core/api/sample_rng.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

constexpr auto kDiscriminator = "discriminator";

struct GanOptions {
  Ref<Model> discriminator;
  Ref<Optimizer> discriminator_optimizer;
  double real_label = 1.0;
  int64_t generator_every = 1;
};

Generator& generator_of(Model& model) {
  if (auto* generator = dynamic_cast<Generator*>(&model)) return *generator;
  throw Error(
      ExitCode::kRecipe,
      "the task 'gan' needs a model that generates samples from noise, which this model does not",
      "'dcgan_generator' does");
}

/// Input and output of the discriminator: samples of the data, one logit each.
ModelContext judged(const DataShape& data) {
  ModelContext context{data};
  context.data.target = {1};
  context.data.target_type = DType::kF32;
  context.data.classes = 0;
  return context;
}

/// Fixed noise per sample in evaluations, on any number of ranks.
at::Tensor noise_for_evaluation(const Batch& batch, int64_t latent) {
  const at::Tensor noise = at::empty({batch.size(), latent}, at::kFloat);
  auto* value = noise.mutable_data_ptr<float>();
  for (const int64_t id : batch.ids) {
    SampleRng rng(0, 0, static_cast<uint64_t>(id));
    for (int64_t i = 0; i < latent; ++i) *value++ = static_cast<float>(rng.normal());
  }
  return noise;
}

class Gan final : public Task {
 public:
  static constexpr auto kName = "gan";
  static constexpr auto kSummary = "A generator against a discriminator, each with an optimizer.";

  static Schema<GanOptions> schema() {
    return Schema<GanOptions>()
        .field("discriminator", &GanOptions::discriminator,
               "The discriminator: a model with one logit per sample.")
        .required()
        .on_resume(Change::kImpossible)
        .field("discriminator_optimizer", &GanOptions::discriminator_optimizer,
               "Optimizer of the discriminator; the recipe's `optimizer` trains the generator.")
        .required()
        .field("real_label", &GanOptions::real_label,
               "Discriminator target of real samples; below 1 (one-sided label smoothing) limits "
               "overconfidence.",
               between(0.0, 1.0))
        .field("generator_every", &GanOptions::generator_every,
               "Discriminator updates per generator update.", at_least<int64_t>(1));
  }

  Gan(const GanOptions& options, const TaskContext& context)
      : options_(options), discriminator_(options.discriminator.make(judged(context.data))) {}

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }

  /// The generator's.
  at::Tensor loss(Model& model, const Batch& batch) override {
    return judge(make(model, batch), 1);
  }

  Evaluation evaluate(Model& model, const Batch& batch) override {
    Generator& generator = generator_of(model);
    const at::Tensor noise = noise_for_evaluation(batch, generator.latent());
    const at::Tensor made = generator.forward(noise.to(batch.inputs.device()));
    return {judge(made, 1), made};
  }

  std::vector<std::string> metrics() const override { return {}; }
  std::vector<std::string> default_metrics() const override { return {}; }

  std::vector<TaskModel> models() override { return {{kDiscriminator, discriminator_.get()}}; }
  std::vector<TaskOptimizer> optimizers() override {
    return {{kDiscriminator, options_.discriminator_optimizer, {kDiscriminator}}};
  }

  double step(StepContext& context) override {
    Model& generator = context.model();
    const double loss = context.update(kDiscriminator, [&](const Batch& batch) {
      const at::Tensor real = judge(batch.inputs, options_.real_label);
      return real.add(judge(make(generator, batch).detach(), 0));
    });
    context.log("discriminator_loss", loss);
    if (context.step() % options_.generator_every == 0) {
      generator_loss_ = context.update(
          kRecipeOptimizer, [&](const Batch& batch) { return this->loss(generator, batch); });
    }
    return generator_loss_;
  }

  StateDict state() const override {
    StateDict state;
    if (options_.generator_every > 1) state.numbers["generator_loss"] = generator_loss_;
    return state;
  }
  void load(const StateDict& state) override {
    const auto found = state.numbers.find("generator_loss");
    if (found == state.numbers.end()) {
      throw CheckpointError("the checkpoint has no 'generator_loss' of the task 'gan'");
    }
    generator_loss_ = found->second;
  }

 private:
  /// Generates samples, as many as the batch has.
  static at::Tensor make(Model& model, const Batch& batch) {
    Generator& generator = generator_of(model);
    const auto type = at::TensorOptions(batch.inputs.device()).dtype(at::kFloat);
    return generator.forward(at::randn({batch.size(), generator.latent()}, type));
  }

  /// Binary cross-entropy of the discriminator's logits against `label`.
  at::Tensor judge(const at::Tensor& samples, double label) {
    const at::Tensor said = discriminator_->forward(samples).to(at::kFloat);
    return at::binary_cross_entropy_with_logits(said, at::full_like(said, label));
  }

  GanOptions options_;
  std::unique_ptr<Model> discriminator_;
  double generator_loss_ = 0;  ///< of its last update; reported by steps without one
};

const Register<Gan> gan;

}  // namespace
}  // namespace accel
