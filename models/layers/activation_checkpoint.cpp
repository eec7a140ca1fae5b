#include "models/layers/activation_checkpoint.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/nn/module.h>

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/api/block.h"
#include "core/api/model.h"
#include "kernels/memory/stored_outputs.h"

namespace accel {
namespace {

using torch::autograd::SavedVariableHooks;

/// While it exists, its saved-tensor hooks apply to this thread.
class HookScope {
 public:
  using Make = std::function<std::unique_ptr<SavedVariableHooks>()>;

  explicit HookScope(Make make) : make_(std::move(make)), outer_(std::exchange(current_, this)) {}
  ~HookScope() { current_ = outer_; }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

  static std::unique_ptr<SavedVariableHooks> make_hooks() {
    return current_ ? current_->make_() : nullptr;
  }

 private:
  static inline thread_local HookScope* current_ = nullptr;
  Make make_;
  HookScope* outer_;
};

/// PyTorch's autograd engine with saved-tensor hooks. Python installs its own engine at the same
/// hook.
class HookEngine final : public torch::autograd::Engine {
 public:
  ~HookEngine() override { stop(); }
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    return HookScope::make_hooks();
  }

  static torch::autograd::Engine& instance() {
    static HookEngine engine;
    return engine;
  }
  static void install() {
    static const bool installed = (torch::autograd::set_default_engine_stub(&instance), true);
    static_cast<void>(installed);
  }
};

/// Devices with generator and autocast state: the CPU, and this thread's GPU if there is one.
std::vector<at::Device> devices_in_use() {
  std::vector<at::Device> devices = {at::kCPU};
  if (const auto type = at::getAccelerator()) {
    const auto& hooks = at::globalContext().getAcceleratorHooksInterface(*type);
    devices.emplace_back(*type, hooks.getCurrentDevice());
  }
  return devices;
}

/// By device.
using RandomState = std::vector<std::pair<at::Device, at::Tensor>>;

RandomState random_state() {
  RandomState states;
  for (const at::Device device : devices_in_use()) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    states.emplace_back(device, generator.get_state());
  }
  return states;
}

void set_random_state(const RandomState& states) {
  for (const auto& [device, state] : states) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state);
  }
}

class AutocastState {
 public:
  AutocastState() {
    for (const at::Device device : devices_in_use()) {
      const at::DeviceType type = device.type();
      casts_.push_back(
          {type, at::autocast::is_autocast_enabled(type), at::autocast::get_autocast_dtype(type)});
    }
  }

  void set() const {
    for (const Cast& cast : casts_) {
      at::autocast::set_autocast_enabled(cast.type, cast.enabled);
      at::autocast::set_autocast_dtype(cast.type, cast.dtype);
    }
    at::autocast::set_autocast_cache_enabled(cache_);
  }

 private:
  struct Cast {
    at::DeviceType type;
    bool enabled;
    at::ScalarType dtype;
  };
  std::vector<Cast> casts_;
  bool cache_ = at::autocast::is_autocast_cache_enabled();
};

/// Restores the state of the first call for the time of the second one.
class RecomputeScope {
 public:
  RecomputeScope(const RandomState& random, const AutocastState& autocast)
      : random_(random_state()) {
    ++depth_;
    set_random_state(random);
    at::autocast::increment_nesting();
    autocast.set();
  }
  ~RecomputeScope() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    autocast_.set();
    set_random_state(random_);
    --depth_;
  }
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;

  static bool is_active() { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
  RandomState random_;
  AutocastState autocast_;
  at::AutoGradMode gradients_{true};
};

/// Thrown after the last required tensor, to end the second call early.
class RecomputationDone {};

/// One checkpointed call, and its saved tensors in order.
class Recomputation {
 public:
  Recomputation(std::function<at::Tensor()> compute, ActivationCheckpointing mode)
      : compute_(std::move(compute)), is_selective_(mode == ActivationCheckpointing::kSelective) {}

  at::Tensor call() {
    at::Tensor output;
    {
      const StoredOutputsScope scope(stored_if_selective(), StoredOutputsScope::Pass::kStore);
      output = compute_();
    }
    stored_.truncate(reached_);
    return output;
  }
  size_t next_slot() {
    reached_ = stored_.size();
    return count_++;
  }

  at::Tensor recompute(size_t number) {
    if (again_.size() != count_ || !again_[number].defined()) run_again();
    return std::exchange(again_[number], {});
  }

 private:
  class RecomputeHooks final : public SavedVariableHooks {
   public:
    explicit RecomputeHooks(Recomputation& owner) : owner_(owner) {}
    void call_pack_hook(const at::Tensor& tensor) override {
      owner_.again_.push_back(tensor.detach());
      if (owner_.again_.size() == owner_.count_) throw RecomputationDone();
    }
    at::Tensor call_unpack_hook() override {
      throw std::logic_error("a block's second forward pass has no backward pass");
    }

   private:
    Recomputation& owner_;
  };

  void run_again() {
    again_.clear();
    again_.reserve(count_);
    const RecomputeScope state(random_, autocast_);
    const HookScope hooks([this] { return std::make_unique<RecomputeHooks>(*this); });
    const StoredOutputsScope scope(stored_if_selective(), StoredOutputsScope::Pass::kTake);
    try {
      compute_();
    } catch (const RecomputationDone&) {
      return;
    }
    throw std::logic_error("a block computed something else the second time");
  }

  StoredOutputs* stored_if_selective() { return is_selective_ ? &stored_ : nullptr; }

  std::function<at::Tensor()> compute_;
  bool is_selective_;
  RandomState random_ = random_state();
  AutocastState autocast_;
  StoredOutputs stored_;
  size_t count_ = 0;
  size_t reached_ = 0;  // stored calls before the last saved tensor, where run_again() ends
  std::vector<at::Tensor> again_;
};

class SlotHooks final : public SavedVariableHooks {
 public:
  explicit SlotHooks(std::shared_ptr<Recomputation> owner) : owner_(std::move(owner)) {}
  void call_pack_hook(const at::Tensor&) override { number_ = owner_->next_slot(); }
  at::Tensor call_unpack_hook() override { return owner_->recompute(number_); }

 private:
  std::shared_ptr<Recomputation> owner_;
  size_t number_ = 0;
};

}  // namespace

at::Tensor checkpoint(std::function<at::Tensor()> compute, ActivationCheckpointing mode) {
  if (!at::GradMode::is_enabled() || mode == ActivationCheckpointing::kNone) return compute();
  HookEngine::install();
  if (mode == ActivationCheckpointing::kSelective) register_stored_operators();
  const auto owner = std::make_shared<Recomputation>(std::move(compute), mode);
  const HookScope hooks([&owner] { return std::make_unique<SlotHooks>(owner); });
  return owner->call();
}

at::Tensor checkpoint(BlockInputs* inputs, const at::Tensor& input,
                      std::function<at::Tensor(const at::Tensor&)> compute,
                      ActivationCheckpointing mode) {
  if (!at::GradMode::is_enabled()) return compute(input);
  if (!inputs) return checkpoint([input, run = std::move(compute)] { return run(input); }, mode);
  return checkpoint(
      [stored = inputs->store(input), run = std::move(compute)] { return run(stored()); }, mode);
}

bool is_recomputing() {
  return RecomputeScope::is_active();
}

int64_t checkpoint_blocks(Model& model, const std::shared_ptr<BlockInputs>& inputs,
                          ActivationCheckpointing mode) {
  HookEngine::install();
  if (mode == ActivationCheckpointing::kSelective) register_stored_operators();
  int64_t found = 0;
  for (const auto& module : model.module().modules(false)) {
    auto* block = dynamic_cast<Block*>(module.get());
    if (!block) continue;
    block->set_checkpointing(mode);
    block->set_inputs(inputs);
    ++found;
  }
  return found;
}

}  // namespace accel
