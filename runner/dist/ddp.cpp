#include <c10/core/GradMode.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "runner/dist/buckets.h"
#include "runner/dist/gradient_hook.h"
#include "runner/dist/strategy.h"

namespace accel {
namespace {

/// One bucket and the sum of it that is under way.
struct Travelling {
  explicit Travelling(Bucket layout) : bucket(std::move(layout)) {}

  Bucket bucket;
  std::vector<bool> there;  ///< by parameter: its gradient is in
  size_t missing = 0;
  std::optional<PowerSgd> power = {};  ///< what compresses it, if anything
  at::Tensor wire;                     ///< what travels
  std::unique_ptr<Pending> sum;
};

class Ddp final : public Strategy {
 public:
  Ddp(const StrategyContext& context, const DdpOptions& options)
      : context_(context), options_(options) {
    for (Bucket& bucket : make_buckets(context.parameters, options.bucket_bytes)) {
      buckets_.emplace_back(std::move(bucket));
    }
    for (size_t b = 0; options.power_sgd && b < buckets_.size(); ++b) {
      PowerSgdOptions power = *options.power_sgd;
      power.seed += b;
      buckets_[b].power.emplace(buckets_[b].bucket, power, context.group->world());
    }
    for (size_t b = 0; b < buckets_.size(); ++b) {
      for (size_t i = 0; i < buckets_[b].bucket.size(); ++i) {
        set_gradient_hook(buckets_[b].bucket.parameter(i).tensor, [this, b, i] { arrived(b, i); });
      }
    }
  }

  ~Ddp() override {
    for (const NamedTensor& item : context_.parameters) clear_gradient_hook(item.tensor);
  }
  Ddp(const Ddp&) = delete;
  Ddp& operator=(const Ddp&) = delete;

  void run(const WindowParts& parts, const Pass& pass) override {
    for (Travelling& travelling : buckets_) {
      travelling.missing = travelling.bucket.size();
      travelling.there.assign(travelling.missing, false);
    }
    next_ = 0;
    compressed_ = options_.power_sgd && parts.step > options_.power_sgd->start;
    for (size_t i = 0; i < parts.own.size(); ++i) {
      // Until the last part gradients only add up here.
      armed_ = i + 1 == parts.own.size() && !parts.before_sums;
      pass(i);
    }
    armed_ = false;
    if (parts.before_sums) parts.before_sums();
    finish();
  }

  StateDict state() const override {
    StateDict state;
    for (size_t b = 0; b < buckets_.size(); ++b) {
      if (!buckets_[b].power) continue;
      for (const NamedTensor& item : buckets_[b].power->state()) {
        state.tensors[name_of(b, item.name)] = item.tensor;
      }
    }
    return state;
  }

  void load(const StateDict& state) override {
    for (size_t b = 0; b < buckets_.size(); ++b) {
      const auto error = state.tensors.find(name_of(b, "error"));
      const auto guess = state.tensors.find(name_of(b, "guess"));
      if (!buckets_[b].power || error == state.tensors.end() || guess == state.tensors.end()) {
        continue;
      }
      buckets_[b].power->load(error->second, guess->second);
    }
  }

  void share_buffers() override {
    if (!options_.broadcast_buffers) return;
    const c10::NoGradGuard no_grad;
    for (const NamedTensor& item : context_.buffers) {
      const at::Tensor whole = item.tensor.contiguous();
      context_.group->broadcast(whole, 0, "buffers");
      if (!whole.is_same(item.tensor)) item.tensor.copy_(whole);
    }
  }

 private:
  static std::string name_of(size_t bucket, const std::string& what) {
    return "bucket" + std::to_string(bucket) + "/" + what;
  }

  void arrived(size_t b, size_t i) {
    if (!armed_) return;
    take(buckets_[b], i);
    start_full();
  }

  void take(Travelling& travelling, size_t i) {
    const c10::NoGradGuard no_grad;
    if (travelling.there[i]) return;
    travelling.bucket.put(i, travelling.bucket.parameter(i).tensor.grad());
    travelling.there[i] = true;
    --travelling.missing;
  }

  /// Buckets start in their order, so that all ranks start them in the same one.
  void start_full() {
    for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) start(buckets_[next_]);
  }

  void start(Travelling& travelling) {
    const c10::NoGradGuard no_grad;
    const at::Tensor& flat = travelling.bucket.flat();
    travelling.wire = compressed_          ? travelling.power->first()
                      : options_.wire_type ? flat.to(*options_.wire_type)
                                           : flat;
    travelling.sum = context_.group->start_all_reduce(travelling.wire, ReduceOp::kSum, "gradients");
  }

  /// The second half of a compressed exchange needs the sum of the first.
  void start_second_half() {
    for (Travelling& travelling : buckets_) {
      travelling.sum->wait();
      travelling.wire = travelling.power->second(travelling.wire);
      travelling.sum.reset();
      if (travelling.wire.numel() == 0) continue;
      travelling.sum =
          context_.group->start_all_reduce(travelling.wire, ReduceOp::kSum, "gradients' columns");
    }
  }

  /// What backward did not reach counts as absent here; other ranks may have it.
  void finish() {
    const c10::NoGradGuard no_grad;
    for (Travelling& travelling : buckets_) {
      for (size_t i = 0; i < travelling.bucket.size(); ++i) take(travelling, i);
    }
    start_full();
    if (compressed_) start_second_half();
    for (Travelling& travelling : buckets_) {
      if (travelling.sum) travelling.sum->wait();
      travelling.sum.reset();
      const at::Tensor& flat = travelling.bucket.flat();
      if (compressed_) travelling.power->finish(travelling.wire);
      if (options_.wire_type) flat.copy_(travelling.wire);
      travelling.wire.reset();
      const std::vector<at::Tensor> sums = travelling.bucket.get(flat);
      for (size_t i = 0; i < sums.size(); ++i) {
        travelling.bucket.parameter(i).tensor.mutable_grad() = sums[i];
      }
    }
  }

  StrategyContext context_;
  DdpOptions options_;
  std::vector<Travelling> buckets_;
  size_t next_ = 0;  ///< the first bucket that has not started
  bool armed_ = false;
  bool compressed_ = false;  ///< this step's gradients are
};

}  // namespace

std::unique_ptr<Strategy> make_ddp(const StrategyContext& context, const DdpOptions& options) {
  return std::make_unique<Ddp>(context, options);
}

}  // namespace accel
