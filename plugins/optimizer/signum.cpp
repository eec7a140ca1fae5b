// An optimizer: steps of one size along the sign of the momentum (Bernstein et al., 2018).
//
// An optimizer turns the gradients that are there into an update, takes its rate from the schedule,
// and gives its state out by the names of the parameters, so that a checkpoint can hold it. This
// one has a single group of parameters.
#include <ATen/core/grad_mode.h>

#include <span>
#include <string>
#include <vector>

#include "core/api/optimizer.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct SignumOptions {
  double lr = 1e-3;
  double momentum = 0.9;
};

class Signum final : public Optimizer {
 public:
  static constexpr auto kName = "example/signum";
  static constexpr auto kSummary = "Steps of one size along the sign of the momentum.";

  static Schema<SignumOptions> schema() {
    return Schema<SignumOptions>()
        .field("lr", &SignumOptions::lr, "How far a step goes.", at_least(0.0))
        .field("momentum", &SignumOptions::momentum, "How much of the last gradients is kept.",
               within(0.0, 1.0));
  }

  Signum(const SignumOptions& options, const OptimizerContext& context)
      : options_(options), lr_(options.lr), parameters_(context.parameters) {
    momenta_.resize(parameters_.size());
  }

  void step() override {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      at::Tensor parameter = parameters_[i].local;
      const at::Tensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      at::Tensor& momentum = momenta_[i];
      if (!momentum.defined()) momentum = gradient.clone().zero_();
      momentum.mul_(options_.momentum).add_(gradient, 1 - options_.momentum);
      parameter.add_(momentum.sign(), -lr_);
    }
  }

  void zero_grad() override {
    for (const Parameter& item : parameters_) item.local.mutable_grad().reset();
  }

  std::vector<double> base_lrs() const override { return {options_.lr}; }
  void set_lrs(std::span<const double> lrs) override { lr_ = lrs[0]; }
  std::vector<Parameter> parameters() const override { return parameters_; }

  /// `accelerator.fsdp` may give it rows of parameters.
  bool supports_shards() const override { return true; }

  OptimizerState state() const override {
    OptimizerState::Group group;
    group.hyper = {{"lr", lr_}, {"momentum", options_.momentum}};
    for (size_t i = 0; i < parameters_.size(); ++i) {
      OptimizerState::ParameterState entry{parameters_[i].name, {}};
      if (momenta_[i].defined()) entry.slots.push_back({"momentum", momenta_[i]});
      group.parameters.push_back(std::move(entry));
    }
    return {{std::move(group)}};
  }

  int64_t pending_state_bytes() const override {
    int64_t bytes = 0;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (!momenta_[i].defined()) bytes += static_cast<int64_t>(parameters_[i].local.nbytes());
    }
    return bytes;
  }

  void load(const OptimizerState& state) override {
    if (state.groups.size() != 1 || state.groups[0].parameters.size() != parameters_.size()) {
      throw CheckpointError("the state is not of 'example/signum' with these parameters");
    }
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const OptimizerState::ParameterState& entry = state.groups[0].parameters[i];
      if (entry.name != parameters_[i].name) {
        throw CheckpointError("the state of 'example/signum' has '" + entry.name + "' for '" +
                              parameters_[i].name + "'");
      }
      momenta_[i].reset();
      for (const Parameter& slot : entry.slots) {
        if (slot.name != "momentum" || slot.local.sizes() != parameters_[i].local.sizes()) {
          throw CheckpointError("the momentum of '" + entry.name + "' does not fit");
        }
        momenta_[i] = slot.local.clone();
      }
    }
  }

 private:
  SignumOptions options_;
  double lr_;
  std::vector<Parameter> parameters_;
  std::vector<at::Tensor> momenta_;  ///< undefined until the first gradient
};

const Register<Signum> signum;

}  // namespace
}  // namespace accel
