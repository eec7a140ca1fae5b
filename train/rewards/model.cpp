// Reward of a trained reward model.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/api/model.h"
#include "core/api/reward.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "models/layers/input_spec.h"
#include "models/layers/module_state.h"
#include "train/tasks/frozen_model.h"

namespace accel {
namespace {

struct ModelRewardOptions {
  Ref<Model> model;
};

class ModelReward final : public RewardFunction {
 public:
  static constexpr auto kName = "model";
  static constexpr const char* kHintFor[] = {"reward_model"};
  static constexpr auto kSummary =
      "The output of a reward model, such as one of the task 'reward', for the tokens of the "
      "prompt "
      "and the completion.";

  static Schema<ModelRewardOptions> schema() {
    return Schema<ModelRewardOptions>()
        .field("model", &ModelRewardOptions::model,
               "A frozen model with one output per text and the tokenizer of the data, such as "
               "{type: auto, weights: FOLDER}.")
        .required()
        .hint_for({"path", "reward_model"})
        .check([](const ModelRewardOptions& options, const Node& node, Reading& reading) {
          if (options.model) want_trained_weights(options.model, "model", node, reading);
        });
  }

  ModelReward(const ModelRewardOptions& options, const RewardContext& context)
      : model_(options.model.make({context.data})) {
    const TextOutput output = text_output(*model_);
    if (output == TextOutput::kWhole || output == TextOutput::kUnknown) return;
    throw Error(ExitCode::kRecipe,
                "the reward 'model' needs a model with one output per text, but this one predicts "
                "tokens",
                "name a reward model: its config has num_labels 1 and its architecture ends with "
                "ForSequenceClassification");
  }

  Model* model() override { return model_.get(); }

  std::vector<std::optional<double>> score(std::span<const ScoredCompletion> completions) override {
    const at::NoGradGuard no_grad;
    const Batch rows = rows_of(completions);
    const at::Tensor out = model_->forward_batch(rows).to(at::kCPU, at::kDouble).contiguous();
    if (out.numel() != rows.size() || out.size(0) != rows.size()) {
      throw Error(ExitCode::kRecipe,
                  text("the reward 'model' needs one output per text, but the model's output is {} "
                       "for {} texts",
                       shape_text(out), rows.size()),
                  "set 'num_labels: 1' of a model such as llama");
    }
    const auto* const first = out.const_data_ptr<double>();
    return {first, first + out.numel()};
  }

 private:
  Batch rows_of(std::span<const ScoredCompletion> completions) const {
    size_t longest = 1;
    for (const ScoredCompletion& item : completions) {
      longest = std::max(longest, item.prompt_tokens.size() + item.tokens.size());
    }
    const auto count = static_cast<int64_t>(completions.size());
    const at::Tensor inputs = at::zeros({count, static_cast<int64_t>(longest)}, at::kLong);
    const at::Tensor lengths = at::empty({count}, at::kLong);
    Batch rows;
    for (int64_t i = 0; i < count; ++i) {
      const ScoredCompletion& item = completions[static_cast<size_t>(i)];
      auto* const end = std::copy(item.prompt_tokens.begin(), item.prompt_tokens.end(),
                                  inputs[i].mutable_data_ptr<int64_t>());
      std::copy(item.tokens.begin(), item.tokens.end(), end);
      lengths.mutable_data_ptr<int64_t>()[i] =
          static_cast<int64_t>(item.prompt_tokens.size() + item.tokens.size());
      rows.ids.push_back(i);
    }
    const at::Device device = parameters_of(*model_).front().local.device();
    rows.inputs = inputs.to(device);
    rows.lengths = lengths.to(device);
    return rows;
  }

  std::unique_ptr<Model> model_;
};

const Register<ModelReward> model_reward;

}  // namespace
}  // namespace accel
