// A model initialized from the weights of an earlier run.
#include <torch/nn/module.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/api/input_path.h"
#include "core/api/model.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "models/hf/hf_family.h"
#include "models/hf/hf_weights.h"
#include "models/layers/input_spec.h"
#include "models/layers/module_state.h"

namespace accel {
namespace {

struct PretrainedOptions {
  Ref<Model> model;
  InputPath weights;
};

constexpr auto kCheckpointManifest = "accel_run.json";

/// The file's name and, transposed or not, the model's name of each weight of a checkpoint in the
/// layout of transformers' module (docs/checkpoint.md); empty for other folders.
nlohmann::json layout_in(const std::string& folder) {
  const std::string path = folder + "/" + kCheckpointManifest;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return nlohmann::json::array();
  const nlohmann::json manifest =
      nlohmann::json::parse(as_text(map_file(path).view), nullptr, /*allow_exceptions=*/false);
  const auto tensors = nlohmann::json::json_pointer("/manifest/layout/tensors");
  return manifest.contains(tensors) ? manifest.at(tensors) : nlohmann::json::array();
}

/// The weights of a folder, with the model's names.
HfWeights open_weights(const std::string& folder, HfNames& names) {
  HfWeights out(folder);
  std::map<std::string, std::string> own;
  for (const nlohmann::json& tensor : layout_in(folder)) {
    if (tensor.value("stacked", false)) {
      throw DataError(
          text("'{}' has stacked experts, which the model 'pretrained' does not read", folder),
          "name the folder that 'accel-run export' writes of it");
    }
    const std::string name = tensor.at("parts").at(0).at(0).get<std::string>();
    own[tensor.at("name").get<std::string>()] = name;
    if (tensor.value("transposed", false)) names.transposed.push_back(name);
  }
  out.rename([&](const std::string& name) {
    const auto found = own.find(name);
    return found == own.end() ? name : found->second;
  });
  return out;
}

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
    HfNames names;
    const HfWeights weights = open_weights(options.weights.text, names);
    std::vector<Parameter> own = parameters_of(*model_);
    for (const Parameter& item : buffers_of(*model_)) own.push_back(item);
    load_weights(own, weights, names, options.model.type);
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
