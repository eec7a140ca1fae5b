// Generative adversarial training (Goodfellow et al., NIPS 2014): the recipe's model makes samples
// out of noise, another one tells them from the data's.
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randn.h>

#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/model.h"
#include "core/registry.h"
#include "core/sample_rng.h"
#include "core/task.h"

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
      "the task 'gan' wants a model that makes samples out of noise, and this model does not",
      "'dcgan_generator' does");
}

/// What the discriminator sees: samples of the data, and one number to say of each.
ModelContext judged(const DataShape& data) {
  ModelContext context{data};
  context.data.target = {1};
  context.data.target_type = DType::kF32;
  context.data.classes = 0;
  return context;
}

/// The same for a sample in every evaluation, on any number of ranks.
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
               "The model that tells real samples from made ones, by one number each.")
        .required()
        .on_resume(Change::kImpossible)
        .field("discriminator_optimizer", &GanOptions::discriminator_optimizer,
               "What trains it; the recipe's `optimizer` trains the generator.")
        .required()
        .field("real_label", &GanOptions::real_label,
               "What the discriminator is to say of a real sample; less than 1 keeps it from "
               "being too sure.",
               between(0.0, 1.0))
        .field("generator_every", &GanOptions::generator_every,
               "The generator learns at every so many steps, the discriminator at each.",
               at_least<int64_t>(1));
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
      throw CheckpointError("the checkpoint holds no 'generator_loss' of the task 'gan'");
    }
    generator_loss_ = found->second;
  }

 private:
  /// As many samples as the batch has.
  static at::Tensor make(Model& model, const Batch& batch) {
    Generator& generator = generator_of(model);
    const auto type = at::TensorOptions(batch.inputs.device()).dtype(at::kFloat);
    return generator.forward(at::randn({batch.size(), generator.latent()}, type));
  }

  /// How far the discriminator is from saying `label` of the samples.
  at::Tensor judge(const at::Tensor& samples, double label) {
    const at::Tensor said = discriminator_->forward(samples).to(at::kFloat);
    return at::binary_cross_entropy_with_logits(said, at::full_like(said, label));
  }

  GanOptions options_;
  std::unique_ptr<Model> discriminator_;
  double generator_loss_ = 0;  ///< of its last update: what a step without one reports
};

const Register<Gan> gan;

}  // namespace
}  // namespace accel
