// Several linear heads on a shared trunk.
#include <ATen/ops/cat.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <vector>

#include "core/api/heads.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "models/layers/input_spec.h"

namespace accel {
namespace {

struct HeadsOptions {
  Ref<Model> trunk;
  int64_t features = 64;
  std::map<std::string, int64_t> outputs;
};

/// The trunk's context: a fixed output size, independent of the targets.
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

class Heads final : public MultiHead, public InputSpec {
 public:
  static constexpr auto kName = "heads";
  static constexpr auto kSummary = "Several linear heads on one trunk, for the task 'multi_head'.";

  static Schema<HeadsOptions> schema() {
    return Schema<HeadsOptions>()
        .field("trunk", &HeadsOptions::trunk, "The model below the heads, such as `mlp`.")
        .required()
        .on_resume(Change::kImpossible)
        .field("features", &HeadsOptions::features,
               "Outputs of the trunk; the heads read them after a ReLU.", at_least<int64_t>(1))
        .on_resume(Change::kImpossible)
        .field("outputs", &HeadsOptions::outputs,
               "Number of outputs of each head by name: `{kind: 3, size: 1}`.")
        .required()
        .on_resume(Change::kImpossible)
        .check([](const HeadsOptions& options, const Node& node, Reading& reading) {
          if (options.outputs.empty()) reading.problems.error(node.where, "'outputs' has no head");
          for (const auto& [name, outputs] : options.outputs) {
            if (outputs > 0 && name.find('.') == name.npos) continue;
            reading.problems.error(
                node.where,
                text("the head '{}' must have at least one output and a name without a dot", name));
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
  const char* default_task() const override { return "multi_head"; }
  void validate_input(const DataShape& data) const override {
    accel::validate_input(*trunk_, data);
  }
  const std::map<std::string, int64_t>& heads() const override { return outputs_; }

 private:
  std::map<std::string, int64_t> outputs_;
  std::unique_ptr<Model> trunk_;
  std::shared_ptr<HeadsNet> net_;
};

const Register<Heads> heads;

}  // namespace
}  // namespace accel
