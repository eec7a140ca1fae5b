#include <c10/core/GradMode.h>

#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/buckets.h"
#include "parallel/strategy.h"

namespace accel {
namespace {

constexpr int64_t kAverageBytes = 25 << 20;
constexpr auto kApart = "apart";

class LocalSgd final : public Strategy {
 public:
  LocalSgd(const StrategyContext& context, int64_t every)
      : context_(context),
        every_(every),
        buckets_(make_buckets(context.parameters, kAverageBytes)) {}

  bool syncs_gradients() const override { return false; }

  void updated(int64_t step) override {
    diverged_ = step % every_ != 0;
    if (!diverged_) average();
  }

  void swap_in_average() override {
    const c10::NoGradGuard no_grad;
    for (const auto* list : {&context_.parameters, &context_.buffers}) {
      for (const Parameter& item : *list) own_.push_back(item.local.detach().clone());
    }
    if (diverged_) average();
    for (const Parameter& item : context_.buffers) {
      const at::Tensor whole = item.local.contiguous();
      context_.group->broadcast(whole, 0, "buffers");
      if (!whole.is_same(item.local)) item.local.copy_(whole);
    }
  }

  void restore_local() override {
    const c10::NoGradGuard no_grad;
    auto own = own_.begin();
    for (const auto* list : {&context_.parameters, &context_.buffers}) {
      for (const Parameter& item : *list) item.local.copy_(*own++);
    }
    own_.clear();
  }

  StateDict state() const override {
    StateDict state;
    state.numbers[kApart] = diverged_ ? 1 : 0;
    for (const auto* list : {&context_.parameters, &context_.buffers}) {
      for (const Parameter& item : *list) state.tensors[item.name] = item.local.detach();
    }
    return state;
  }

  void load(const StateDict& state) override {
    const auto apart = state.numbers.find(kApart);
    if (apart == state.numbers.end()) return;  // of another strategy
    const c10::NoGradGuard no_grad;
    for (const auto* list : {&context_.parameters, &context_.buffers}) {
      for (const Parameter& item : *list) {
        const auto found = state.tensors.find(item.name);
        if (found == state.tensors.end() || found->second.sizes() != item.local.sizes()) {
          throw CheckpointError(
              text("the checkpoint's 'local_sgd' state has no '{}' that fits the model", item.name),
              "start a new run under another 'name'");
        }
        item.local.copy_(found->second);
      }
    }
    diverged_ = apart->second != 0;
  }

 private:
  /// Averages parameters only, as Accelerate: buffers and optimizer state stay per rank.
  void average() {
    const c10::NoGradGuard no_grad;
    const auto world = static_cast<double>(context_.group->world());
    std::vector<std::unique_ptr<Pending>> sums;
    for (Bucket& bucket : buckets_) {
      for (size_t i = 0; i < bucket.size(); ++i) bucket.put(i, bucket.parameter(i).local);
      sums.push_back(
          context_.group->start_all_reduce(bucket.flat(), ReduceOp::kSum, "average of weights"));
    }
    for (size_t b = 0; b < buckets_.size(); ++b) {
      sums[b]->wait();
      const Bucket& bucket = buckets_[b];
      for (size_t i = 0; i < bucket.size(); ++i) {
        const at::Tensor& mean = bucket.parameter(i).local;
        mean.copy_(bucket.slice(i, bucket.flat()).view(mean.sizes()).div(world));
      }
    }
  }

  StrategyContext context_;
  int64_t every_;
  std::vector<Bucket> buckets_;
  bool diverged_ = false;  ///< weights differ by rank since the last update
  std::vector<at::Tensor> own_;
};

}  // namespace

std::unique_ptr<Strategy> make_local_sgd(const StrategyContext& context, int64_t every) {
  return std::make_unique<LocalSgd>(context, every);
}

}  // namespace accel
