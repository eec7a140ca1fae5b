#include <c10/core/GradMode.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/memory/gradient_memory.h"
#include "kernels/norm.h"
#include "parallel/buckets.h"
#include "parallel/gradient_hook.h"
#include "parallel/gradients.h"
#include "parallel/strategy.h"

namespace accel {
namespace {

/// Elements of gradients, at least, whose norm ranks compute together: some 50 microseconds each.
constexpr int64_t kLeastDividedNorm = 1 << 20;

/// A bucket and its all-reduce in progress.
struct BucketInFlight {
  explicit BucketInFlight(Bucket layout) : bucket(std::move(layout)) {}

  Bucket bucket;
  std::vector<bool> ready;  ///< by parameter: its gradient is in the bucket
  size_t missing = 0;
  std::optional<PowerSgd> power = {};  ///< compression, if enabled
  at::Tensor comm_buffer;              ///< the all-reduced tensor
  std::unique_ptr<Pending> sum;
};

class Ddp final : public Strategy {
 public:
  Ddp(const StrategyContext& context, const DdpOptions& options)
      : context_(context), options_(options) {
    const auto memory = shares_buckets() ? BucketMemory::kLater : BucketMemory::kOwn;
    for (Bucket& bucket : make_buckets(context.parameters, options.bucket_bytes, memory)) {
      buckets_.emplace_back(std::move(bucket));
    }
    std::vector<uint64_t> seeds;
    if (options.power_sgd) seeds = power_sgd_seeds(options.power_sgd->seed, buckets_.size());
    for (size_t b = 0; b < seeds.size(); ++b) {
      PowerSgdOptions power = *options.power_sgd;
      power.seed = seeds[b];
      buckets_[b].power.emplace(buckets_[b].bucket, power, context.group->world());
    }
    for (size_t b = 0; b < buckets_.size(); ++b) {
      for (size_t i = 0; i < buckets_[b].bucket.size(); ++i) {
        set_gradient_hook(buckets_[b].bucket.parameter(i).local,
                          [this, b, i] { on_gradient(b, i); });
      }
    }
  }

  ~Ddp() override {
    for (const Parameter& item : context_.parameters) clear_gradient_hook(item.local);
  }
  Ddp(const Ddp&) = delete;
  Ddp& operator=(const Ddp&) = delete;

  void begin(const StepLayout& layout) override {
    if (!buckets_.empty() && !buckets_.front().bucket.flat().defined()) share_buckets();
    for (BucketInFlight& in_flight : buckets_) {
      in_flight.missing = in_flight.bucket.size();
      in_flight.ready.assign(in_flight.missing, false);
    }
    offer_buckets();
    next_ = 0;
    overlap_ = layout.overlap;
    compressed_ = options_.power_sgd && layout.step > options_.power_sgd->start;
  }

  /// Gradients are accumulated locally until the last pass.
  void before_pass(bool last) override { armed_ = last && overlap_; }

  /// Gradients of parameters that backward did not reach are absent on this rank.
  void finish() override {
    const c10::NoGradGuard no_grad;
    armed_ = false;
    gradient_memory_.withdraw();
    for (BucketInFlight& in_flight : buckets_) {
      for (size_t i = 0; i < in_flight.bucket.size(); ++i) take(in_flight, i);
    }
    start_complete();
    if (compressed_) start_second_all_reduce();
    for (BucketInFlight& in_flight : buckets_) put_back(in_flight);
  }

  /// All ranks have all gradients: each reads a part of their rows, if an exchange takes less time.
  at::Tensor gradient_norm(std::span<const Parameter> parameters) const override {
    const c10::NoGradGuard no_grad;
    Communicator& group = *context_.group;
    const auto rank = static_cast<size_t>(group.rank());
    std::vector<at::Tensor> rows;
    int64_t elements = 0;
    for (const Parameter& item : parameters) {
      const at::Tensor& gradient = item.local.grad();
      if (!gradient.defined()) continue;
      rows.push_back(rows_by_rank(gradient, group.world())[rank]);
      elements += gradient.numel();
    }
    if (!shares_buckets() || elements < kLeastDividedNorm) {
      return gradient_norm_by_rows(parameters, group.world());
    }
    return norm_of_squares(group.all_gather(squared_norms(rows), "gradient norm").t().contiguous());
  }

  StateDict state() const override {
    StateDict state;
    for (size_t b = 0; b < buckets_.size(); ++b) {
      if (!buckets_[b].power) continue;
      for (const Parameter& item : buckets_[b].power->state()) {
        state.tensors[name_of(b, item.name)] = item.local;
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

  void broadcast_buffers() override {
    if (!options_.broadcast_buffers) return;
    const c10::NoGradGuard no_grad;
    for (const Parameter& item : context_.buffers) {
      const at::Tensor whole = item.local.contiguous();
      context_.group->broadcast(whole, 0, "buffers");
      if (!whole.is_same(item.local)) item.local.copy_(whole);
    }
  }

 private:
  static std::string name_of(size_t bucket, const std::string& what) {
    return "bucket" + std::to_string(bucket) + "/" + what;
  }

  /// Whether the buckets themselves are reduced, in memory that the ranks share.
  bool shares_buckets() const {
    const auto is_on_cpu = [](const Parameter& item) { return item.local.is_cpu(); };
    return !options_.power_sgd && !options_.comm_dtype && context_.group->shares_memory() &&
           std::all_of(context_.parameters.begin(), context_.parameters.end(), is_on_cpu);
  }

  /// At the first step: ranks build their jobs when they like, and step together.
  void share_buckets() {
    constexpr int64_t kAlignment = 64;
    std::vector<int64_t> ends = {0};
    for (const BucketInFlight& in_flight : buckets_) {
      const int64_t bytes = in_flight.bucket.bytes();
      ends.push_back(ends.back() + (bytes + kAlignment - 1) / kAlignment * kAlignment);
    }
    const at::Tensor memory = context_.group->shared_zeros(ends.back(), "memory of gradients");
    for (size_t b = 0; b < buckets_.size(); ++b) {
      Bucket& bucket = buckets_[b].bucket;
      bucket.set_flat(memory.narrow(0, ends[b], bucket.bytes()));
    }
  }

  /// Gradients that kernels compute in the buckets need no copy.
  void offer_buckets() {
    const c10::NoGradGuard no_grad;
    for (const BucketInFlight& in_flight : buckets_) {
      const Bucket& bucket = in_flight.bucket;
      for (size_t i = 0; i < bucket.size(); ++i) {
        const at::Tensor& parameter = bucket.parameter(i).local;
        if (parameter.is_contiguous())
          gradient_memory_.offer(parameter, bucket.slice(i, bucket.flat()));
      }
    }
  }

  void on_gradient(size_t b, size_t i) {
    if (!armed_) return;
    take(buckets_[b], i);
    start_complete();
  }

  void take(BucketInFlight& in_flight, size_t i) {
    const c10::NoGradGuard no_grad;
    if (in_flight.ready[i]) return;
    in_flight.bucket.put(i, in_flight.bucket.parameter(i).local.grad());
    in_flight.ready[i] = true;
    --in_flight.missing;
  }

  /// Starts buckets in order, the same on all ranks.
  void start_complete() {
    for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) start(buckets_[next_]);
  }

  void start(BucketInFlight& in_flight) {
    const c10::NoGradGuard no_grad;
    const at::Tensor& flat = in_flight.bucket.flat();
    in_flight.comm_buffer = compressed_           ? in_flight.power->first()
                            : options_.comm_dtype ? flat.to(*options_.comm_dtype)
                                                  : flat;
    in_flight.sum =
        context_.group->start_all_reduce(in_flight.comm_buffer, ReduceOp::kSum, "gradients");
  }

  /// The second all-reduce of compressed gradients needs the result of the first.
  void start_second_all_reduce() {
    for (BucketInFlight& in_flight : buckets_) {
      in_flight.sum->wait();
      in_flight.comm_buffer = in_flight.power->second(in_flight.comm_buffer);
      in_flight.sum.reset();
      if (in_flight.comm_buffer.numel() == 0) continue;
      in_flight.sum = context_.group->start_all_reduce(in_flight.comm_buffer, ReduceOp::kSum,
                                                       "gradients' columns");
    }
  }

  /// Writes the sums to the parameters' gradients.
  void put_back(BucketInFlight& in_flight) {
    if (in_flight.sum) in_flight.sum->wait();
    in_flight.sum.reset();
    const at::Tensor& flat = in_flight.bucket.flat();
    if (compressed_) in_flight.power->finish(in_flight.comm_buffer);
    if (options_.comm_dtype) flat.copy_(in_flight.comm_buffer);
    in_flight.comm_buffer.reset();
    const std::vector<at::Tensor> sums = in_flight.bucket.get(flat);
    for (size_t i = 0; i < sums.size(); ++i) {
      in_flight.bucket.parameter(i).local.mutable_grad() = sums[i];
    }
  }

  StrategyContext context_;
  DdpOptions options_;
  std::vector<BucketInFlight> buckets_;
  GradientMemory gradient_memory_;
  size_t next_ = 0;  ///< the first bucket not started
  bool overlap_ = true;
  bool armed_ = false;       ///< the current pass is the last one
  bool compressed_ = false;  ///< whether this step's gradients are compressed
};

}  // namespace

std::unique_ptr<Strategy> make_ddp(const StrategyContext& context, const DdpOptions& options) {
  return std::make_unique<Ddp>(context, options);
}

}  // namespace accel
