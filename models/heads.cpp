// Several linear heads on what another model makes of a sample.
#include <ATen/ops/cat.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <vector>

#include "core/heads.h"
#include "core/registry.h"
#include "models/fitted_model.h"

namespace accel {
namespace {

struct HeadsOptions {
  Ref<Model> trunk;
  int64_t features = 64;
  std::map<std::string, int64_t> outputs;
};

/// What the trunk is to give: so many numbers, whatever the targets are.
ModelContext trunk_context(const ModelContext& context, int64_t features) {
  ModelContext out = context;
  out.data.target = {features};
  out.data.target_type = DType::kF32;
  out.data.classes = 0;
  return out;
}

class HeadsNet final : public torch::nn::Module {
 public:
  HeadsNet(Model& trunk, const HeadsOptions& options) {
    register_module("trunk", trunk.module().shared_from_this());
    for (const auto& [name, outputs] : options.outputs) {
      heads_.push_back(
          register_module("head_" + name, torch::nn::Linear(options.features, outputs)));
    }
  }

  at::Tensor forward(const at::Tensor& features) {
    std::vector<at::Tensor> outputs;
    for (torch::nn::Linear& head : heads_) outputs.push_back(head->forward(features));
    return at::cat(outputs, 1);
  }

 private:
  std::vector<torch::nn::Linear> heads_;
};

class Heads final : public MultiHead, public FittedModel {
 public:
  static constexpr auto kName = "heads";
  static constexpr auto kSummary = "Several linear heads on one trunk, for the task 'multi'.";

  static Schema<HeadsOptions> schema() {
    return Schema<HeadsOptions>()
        .field("trunk", &HeadsOptions::trunk, "The model below the heads, such as `mlp`.")
        .required()
        .on_resume(Change::kImpossible)
        .field("features", &HeadsOptions::features,
               "Numbers that the trunk gives the heads, which see them behind a ReLU.",
               at_least<int64_t>(1))
        .on_resume(Change::kImpossible)
        .field("outputs", &HeadsOptions::outputs,
               "By the head's name how many numbers it gives: `{kind: 3, size: 1}`.")
        .required()
        .on_resume(Change::kImpossible)
        .check([](const HeadsOptions& options, const Node& node, Reading& reading) {
          if (options.outputs.empty()) reading.problems.error(node.where, "'outputs' has no head");
          for (const auto& [name, outputs] : options.outputs) {
            if (outputs > 0 && name.find('.') == name.npos) continue;
            reading.problems.error(node.where, "the head '" + name +
                                                   "' must give at least one number and "
                                                   "have a name without a dot");
          }
        });
  }

  Heads(const HeadsOptions& options, const ModelContext& context)
      : outputs_(options.outputs),
        trunk_(options.trunk.make(trunk_context(context, options.features))),
        net_(std::make_shared<HeadsNet>(*trunk_, options)) {}

  at::Tensor forward(const at::Tensor& inputs) override {
    return net_->forward(trunk_->forward(inputs).relu());
  }
  at::Tensor forward_batch(const Batch& batch) override {
    return net_->forward(trunk_->forward_batch(batch).relu());
  }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "multi"; }
  void check_samples(const DataShape& data) const override { accel::check_samples(*trunk_, data); }
  const std::map<std::string, int64_t>& heads() const override { return outputs_; }

 private:
  std::map<std::string, int64_t> outputs_;
  std::unique_ptr<Model> trunk_;
  std::shared_ptr<HeadsNet> net_;
};

const Register<Heads> heads;

}  // namespace
}  // namespace accel
