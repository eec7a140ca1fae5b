// A model that starts from the weights of an earlier run.
#include <torch/nn/module.h>

#include "core/error.h"
#include "core/input_path.h"
#include "core/model.h"
#include "core/registry.h"
#include "models/fitted_model.h"
#include "models/hf_family.h"

namespace accel {
namespace {

struct PretrainedOptions {
  Ref<Model> model;
  InputPath weights;
};

class Pretrained final : public Model, public FittedModel {
 public:
  static constexpr auto kName = "pretrained";
  static constexpr auto kSummary = "Another model with weights from a checkpoint or model folder.";

  static Schema<PretrainedOptions> schema() {
    return Schema<PretrainedOptions>()
        .field("model", &PretrainedOptions::model, "The model itself.")
        .required()
        .on_resume(Change::kImpossible)
        .field("weights", &PretrainedOptions::weights,
               "The folder, such as `runs/teacher/checkpoints/checkpoint_500`, with the model's "
               "model.safetensors or pytorch_model.bin, whole or in shards.")
        .required()
        .on_resume(Change::kFree);
  }

  Pretrained(const PretrainedOptions& options, const ModelContext& context)
      : model_(options.model.make(context)) {
    load_hf_weights(*model_, options.weights.text, {}, options.model.type);
  }

  at::Tensor forward(const at::Tensor& inputs) override { return model_->forward(inputs); }
  at::Tensor forward_batch(const Batch& batch) override { return model_->forward_batch(batch); }
  torch::nn::Module& module() override { return model_->module(); }
  const char* default_task() const override { return model_->default_task(); }
  void check_samples(const DataShape& data) const override { accel::check_samples(*model_, data); }
  TextOutput text_output() const override { return accel::text_output(*model_); }

 private:
  std::unique_ptr<Model> model_;
};

const Register<Pretrained> pretrained;

}  // namespace
}  // namespace accel
