#include <c10/core/GradMode.h>

#include <utility>

#include "core/error.h"
#include "runner/dist/buckets.h"
#include "runner/dist/strategy.h"

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

  void run(const WindowParts& parts, const Pass& pass) override {
    for (size_t i = 0; i < parts.own.size(); ++i) pass(i);
    if (parts.before_sums) parts.before_sums();
  }

  bool is_local() const override { return true; }

  void updated(int64_t step) override {
    apart_ = step % every_ != 0;
    if (!apart_) average();
  }

  void unite() override {
    const c10::NoGradGuard no_grad;
    for (const auto* list : {&context_.parameters, &context_.buffers}) {
      for (const NamedTensor& item : *list) own_.push_back(item.tensor.detach().clone());
    }
    if (apart_) average();
    for (const NamedTensor& item : context_.buffers) {
      const at::Tensor whole = item.tensor.contiguous();
      context_.group->broadcast(whole, 0, "buffers");
      if (!whole.is_same(item.tensor)) item.tensor.copy_(whole);
    }
  }

  void separate() override {
    const c10::NoGradGuard no_grad;
    auto own = own_.begin();
    for (const auto* list : {&context_.parameters, &context_.buffers}) {
      for (const NamedTensor& item : *list) item.tensor.copy_(*own++);
    }
    own_.clear();
  }

  StateDict state() const override {
    StateDict state;
    state.numbers[kApart] = apart_ ? 1 : 0;
    for (const auto* list : {&context_.parameters, &context_.buffers}) {
      for (const NamedTensor& item : *list) state.tensors[item.name] = item.tensor.detach();
    }
    return state;
  }

  void load(const StateDict& state) override {
    const auto apart = state.numbers.find(kApart);
    if (apart == state.numbers.end()) return;  // another strategy left it
    const c10::NoGradGuard no_grad;
    for (const auto* list : {&context_.parameters, &context_.buffers}) {
      for (const NamedTensor& item : *list) {
        const auto found = state.tensors.find(item.name);
        if (found == state.tensors.end() || found->second.sizes() != item.tensor.sizes()) {
          throw CheckpointError("what 'local_sgd' left in the checkpoint has no '" + item.name +
                                    "' that fits the model",
                                "start a new run under another 'name'");
        }
        item.tensor.copy_(found->second);
      }
    }
    apart_ = apart->second != 0;
  }

 private:
  /// Of parameters alone, as Accelerate does: buffers and the optimizer's state stay a rank's own.
  void average() {
    const c10::NoGradGuard no_grad;
    const auto world = static_cast<double>(context_.group->world());
    std::vector<std::unique_ptr<Pending>> sums;
    for (Bucket& bucket : buckets_) {
      for (size_t i = 0; i < bucket.size(); ++i) bucket.put(i, bucket.parameter(i).tensor);
      sums.push_back(
          context_.group->start_all_reduce(bucket.flat(), ReduceOp::kSum, "average of weights"));
    }
    for (size_t b = 0; b < buckets_.size(); ++b) {
      sums[b]->wait();
      const Bucket& bucket = buckets_[b];
      for (size_t i = 0; i < bucket.size(); ++i) {
        const at::Tensor& mean = bucket.parameter(i).tensor;
        mean.copy_(bucket.slice(i, bucket.flat()).view(mean.sizes()).div(world));
      }
    }
  }

  StrategyContext context_;
  int64_t every_;
  std::vector<Bucket> buckets_;
  bool apart_ = false;  ///< the last update was not followed by an average
  std::vector<at::Tensor> own_;
};

}  // namespace

std::unique_ptr<Strategy> make_local_sgd(const StrategyContext& context, int64_t every) {
  return std::make_unique<LocalSgd>(context, every);
}

}  // namespace accel
