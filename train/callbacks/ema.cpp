// Exponential moving average of the weights, used in evaluations.
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "core/api/callback.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct EmaOptions {
  double decay = 0.999;
  bool warmup = false;
  Duration every = {1, Duration::Unit::kSteps};
};

Rule<Duration> whole_steps() {
  return {[](const Duration& v) { return v.unit == Duration::Unit::kSteps && v.value >= 1; },
          "a number of steps", ""};
}

/// Averages parameters only: buffers, such as running statistics of batch norm, stay the model's.
class Ema final : public Callback {
 public:
  static constexpr auto kName = "ema";
  static constexpr const char* kHintFor[] = {"exponential_moving_average"};
  static constexpr auto kSummary = "Evaluates an exponential moving average of the weights.";

  static Schema<EmaOptions> schema() {
    return Schema<EmaOptions>()
        .field("decay", &EmaOptions::decay,
               "Share of the average that an update keeps. Higher averages over more updates.",
               within(0.0, 1.0))
        .field("warmup", &EmaOptions::warmup,
               "Reduce the decay of early updates: update n keeps at most (1 + n) / (10 + n).")
        .field("every", &EmaOptions::every,
               "Steps between updates of the average. More save time and need a lower decay.",
               whole_steps());
  }

  Ema(const EmaOptions& options, const CallbackContext& context)
      : options_(options), every_(static_cast<int64_t>(options.every.value)) {
    const c10::NoGradGuard no_grad;
    for (const Parameter& parameter : context.parameters) {
      names_.push_back(parameter.name);
      parameters_.push_back(parameter.local);
      average_.push_back(parameter.local.detach().clone());
    }
  }

  void on_step(int64_t step) override {
    if (step % every_ != 0) return;
    const c10::NoGradGuard no_grad;
    at::_foreach_lerp_(average_, parameters_, 1 - decay());
    ++updates_;
  }

  void before_eval() override {
    const c10::NoGradGuard no_grad;
    for (const at::Tensor& parameter : parameters_) weights_.push_back(parameter.detach().clone());
    at::_foreach_copy_(parameters_, average_);
  }

  void after_eval() override {
    const c10::NoGradGuard no_grad;
    at::_foreach_copy_(parameters_, weights_);
    weights_.clear();
  }

  void save(StateDict& state) const override {
    state.numbers["updates"] = static_cast<double>(updates_);
    for (size_t i = 0; i < names_.size(); ++i) state.tensors[names_[i]] = average_[i];
  }

  void load(const StateDict& state) override {
    const auto updates = state.numbers.find("updates");
    if (updates == state.numbers.end()) refuse("updates");
    for (size_t i = 0; i < names_.size(); ++i) {
      const auto found = state.tensors.find(names_[i]);
      if (found == state.tensors.end() || found->second.sizes() != average_[i].sizes()) {
        refuse(names_[i]);
      }
    }
    updates_ = static_cast<int64_t>(updates->second);
    for (size_t i = 0; i < names_.size(); ++i) {
      average_[i].copy_(state.tensors.at(names_[i]));
    }
  }

 private:
  double decay() const {
    if (!options_.warmup) return options_.decay;
    const auto n = static_cast<double>(updates_);
    return std::min(options_.decay, (1 + n) / (10 + n));
  }

  [[noreturn]] static void refuse(const std::string& name) {
    throw CheckpointError(text("the state of 'ema' has no '{}' that fits the model", name));
  }

  EmaOptions options_;
  int64_t every_;
  int64_t updates_ = 0;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;  // the model's
  std::vector<at::Tensor> average_;
  std::vector<at::Tensor> weights_;  // the model's weights while the average is swapped in
};

const Register<Ema> ema;

}  // namespace
}  // namespace accel
