// A model initialized from the weights of an earlier run.
#include <torch/nn/module.h>

#include "core/api/input_path.h"
#include "core/api/model.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"
#include "models/hf/hf_family.h"
#include "models/hf/hf_weights.h"
#include "models/layers/input_spec.h"

namespace accel {
namespace {

struct PretrainedOptions {
  Ref<Model> model;
  InputPath weights;
};

class Pretrained final : public Model, public InputSpec {
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
  void validate_input(const DataShape& data) const override {
    accel::validate_input(*model_, data);
  }
  TextOutput text_output() const override { return accel::text_output(*model_); }

 private:
  std::unique_ptr<Model> model_;
};

const Register<Pretrained> pretrained;

}  // namespace
}  // namespace accel
