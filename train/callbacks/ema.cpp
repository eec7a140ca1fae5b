// Exponential moving average of the weights, used in evaluations.
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/empty.h>
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
      : options_(options),
        every_(static_cast<int64_t>(options.every.value)),
        swapper_(context.swapper) {
    const c10::NoGradGuard no_grad;
    for (const Parameter& parameter : context.parameters) {
      const bool is_code = !at::isFloatingType(parameter.local.scalar_type());
      if (!is_code) add(parameter);  // those of quantized weights do not change
    }
    for (Unit& unit : units_) make_average(unit);
  }

  bool supports_swapping() const override { return true; }

  void on_step(int64_t step) override {
    if (step % every_ != 0) return;
    const c10::NoGradGuard no_grad;
    for (size_t i = 0; i < units_.size(); ++i) {
      const SwapScope weights = weights_of(units_[i], SwapAccess::kRead);
      const SwapScope average = units_[i].buffer.scope(SwapAccess::kChange);
      prefetch(i + 1);
      at::_foreach_lerp_(units_[i].average, units_[i].weights, 1 - decay());
    }
    ++updates_;
  }

  void before_eval() override { swap_contents(); }
  void after_eval() override { swap_contents(); }

  void save(StateDict& state) const override {
    state.numbers["updates"] = static_cast<double>(updates_);
    for (const Unit& unit : units_) {
      for (size_t i = 0; i < unit.names.size(); ++i) state.tensors[unit.names[i]] = unit.average[i];
    }
  }

  void load(const StateDict& state) override {
    const auto updates = state.numbers.find("updates");
    if (updates == state.numbers.end()) refuse("updates");
    for (const Unit& unit : units_) {
      for (size_t i = 0; i < unit.names.size(); ++i) {
        const auto found = state.tensors.find(unit.names[i]);
        if (found == state.tensors.end() || found->second.sizes() != unit.average[i].sizes()) {
          refuse(unit.names[i]);
        }
      }
    }
    updates_ = static_cast<int64_t>(updates->second);
    for (Unit& unit : units_) {
      const SwapScope average = unit.buffer.scope(SwapAccess::kOverwrite);
      for (size_t i = 0; i < unit.names.size(); ++i) {
        unit.average[i].copy_(state.tensors.at(unit.names[i]));
      }
    }
  }

 private:
  /// Parameters of one slab, or all that are in memory, and their average.
  struct Unit {
    std::optional<size_t> slab;
    std::vector<std::string> names = {};
    std::vector<at::Tensor> weights = {};  // the model's
    std::vector<at::Tensor> average = {};
    StateBuffer buffer = {};  // of the average, if weights are swapped
  };

  void add(const Parameter& parameter) {
    const auto slab = swapper_ ? swapper_->find(parameter.local) : std::nullopt;
    auto unit = std::find_if(units_.begin(), units_.end(),
                             [&](const Unit& item) { return item.slab == slab; });
    if (unit == units_.end()) {
      units_.emplace_back().slab = slab;
      unit = units_.end() - 1;
    }
    unit->names.push_back(parameter.name);
    unit->weights.push_back(parameter.local);
  }

  void make_average(Unit& unit) {
    const SwapScope weights = weights_of(unit, SwapAccess::kRead);
    if (!unit.slab) {
      for (const at::Tensor& tensor : unit.weights) unit.average.push_back(tensor.detach().clone());
      return;
    }
    constexpr int64_t kAlignment = 64;
    std::vector<int64_t> offsets;
    int64_t bytes = 0;
    for (const at::Tensor& tensor : unit.weights) {
      offsets.push_back(bytes);
      bytes += (static_cast<int64_t>(tensor.nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
    }
    unit.buffer = StateBuffer(swapper_, bytes, bytes);
    const SwapScope average = unit.buffer.scope(SwapAccess::kOverwrite);
    for (size_t i = 0; i < offsets.size(); ++i) {
      const at::Tensor& tensor = unit.weights[i];
      unit.average.push_back(unit.buffer.bytes()
                                 .narrow(0, offsets[i], static_cast<int64_t>(tensor.nbytes()))
                                 .view(tensor.scalar_type())
                                 .view(tensor.sizes())
                                 .copy_(tensor));
    }
  }

  SwapScope weights_of(const Unit& unit, SwapAccess access) const {
    return {swapper_.get(), unit.slab, access};
  }

  void prefetch(size_t unit) const {
    if (unit >= units_.size() || !units_[unit].slab) return;
    swapper_->prefetch(*units_[unit].slab, SwapAccess::kRead);
    units_[unit].buffer.prefetch(SwapAccess::kChange);
  }

  /// Exchanges weights and average.
  void swap_contents() {
    const c10::NoGradGuard no_grad;
    for (Unit& unit : units_) {
      const SwapScope weights = weights_of(unit, SwapAccess::kChange);
      const SwapScope average = unit.buffer.scope(SwapAccess::kChange);
      for (size_t i = 0; i < unit.weights.size(); ++i) {
        const at::Tensor kept = unit.weights[i].detach().clone();
        unit.weights[i].copy_(unit.average[i]);
        unit.average[i].copy_(kept);
      }
    }
  }

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
  std::shared_ptr<StateSwapper> swapper_;
  std::vector<Unit> units_;
};

const Register<Ema> ema;

}  // namespace
}  // namespace accel
