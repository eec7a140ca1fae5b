#include <ATen/Context.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "core/api/sample_rng.h"
#include "parallel/buckets.h"
#include "parallel/strategy.h"

namespace accel {
namespace {

/// A gradient for each parameter, undefined where it has none.
using Gradients = std::vector<at::Tensor>;

at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b) {
  return !a.defined() ? b : !b.defined() ? a : a.add(b);
}

void add_to(Gradients& sum, const Gradients& more) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = sum_of(sum[i], more[i]);
}

class Canonical final : public Strategy {
 public:
  Canonical(const StrategyContext& context, const CanonicalOptions& options)
      : context_(context),
        options_(options),
        buckets_(make_buckets(context.parameters, options.bucket_bytes)) {
    if (!std::has_single_bit(static_cast<uint64_t>(context.group->world()))) {
      throw std::logic_error("a canonical sum needs a power of two of ranks");
    }
  }

  void begin(const StepLayout& layout) override {
    layout_ = layout;
    program_.clear();
    order_.clear();
    sums_.clear();
    next_ = 0;
    compile(context_.group->rank(), context_.group->world());
    run_to_next_pass();
  }

  size_t micro_batch_at(size_t k) const override { return order_[k]; }

  void before_pass(bool /*last*/) override { seed_micro_batch(program_[next_].index); }

  void after_pass() override {
    Gradients made;
    for (const Parameter& item : context_.parameters) {
      made.push_back(item.local.grad());
      item.local.mutable_grad().reset();
    }
    sums_.push_back(std::move(made));
    ++next_;
    run_to_next_pass();
  }

  void finish() override {
    Gradients own = sums_.empty() ? Gradients() : std::move(sums_.back());
    if (own.empty()) own.resize(context_.parameters.size());
    const c10::NoGradGuard no_grad;
    size_t last = context_.parameters.size();  // buckets are in reverse order of parameters
    for (Bucket& bucket : buckets_) {
      for (size_t i = 0; i < bucket.size(); ++i) bucket.put(i, own[last - 1 - i]);
      const at::Tensor all = context_.group->all_gather(bucket.flat(), "gradients");
      const Gradients sums = sum_ranks(bucket, all, 0, 1);
      for (size_t i = 0; i < bucket.size(); ++i) {
        bucket.parameter(i).local.mutable_grad() = sums[i];
      }
      last -= bucket.size();
    }
    sums_.clear();
    // Later random numbers must not depend on the assignment of micro-batches to ranks.
    seed_micro_batch(layout_.num_micro_batches);
  }

 private:
  /// An instruction on a stack of sums: push the gradients of a pass, push nothing, or add the top
  /// two entries.
  struct Instruction {
    enum class Kind { kPass, kNone, kAdd } kind;
    int64_t index = 0;  ///< of the micro-batch that kPass runs
  };

  /// Appends the program that pushes the sum over micro-batches with index = `first` modulo
  /// `stride`.
  void compile(int64_t first, int64_t stride) {
    const int64_t count = layout_.num_micro_batches;
    if (first < count && count % stride == 0 && count / stride % 2 == 0) {
      compile(first, 2 * stride);
      compile(first + stride, 2 * stride);
      program_.push_back({Instruction::Kind::kAdd});
      return;
    }
    program_.push_back({Instruction::Kind::kNone});
    for (int64_t index = first; index < count; index += stride) {
      const auto own = std::find(layout_.own.begin(), layout_.own.end(), index);
      if (own == layout_.own.end()) continue;
      order_.push_back(static_cast<size_t>(own - layout_.own.begin()));
      program_.push_back({Instruction::Kind::kPass, index});
      program_.push_back({Instruction::Kind::kAdd});
    }
  }

  void run_to_next_pass() {
    for (; next_ < program_.size() && program_[next_].kind != Instruction::Kind::kPass; ++next_) {
      if (program_[next_].kind == Instruction::Kind::kNone) {
        sums_.emplace_back();
        continue;
      }
      Gradients more = std::move(sums_.back());
      sums_.pop_back();
      if (sums_.back().empty()) {
        sums_.back() = std::move(more);
      } else if (!more.empty()) {
        add_to(sums_.back(), more);
      }
    }
  }

  void seed_micro_batch(int64_t index) const {
    at::manual_seed(
        SampleRng(options_.seed, static_cast<uint64_t>(layout_.step), static_cast<uint64_t>(index))
            .next());
  }

  /// The upper part of the tree, over the ranks' sums: the same on every rank.
  Gradients sum_ranks(const Bucket& bucket, const at::Tensor& all, int64_t first,
                      int64_t stride) const {
    if (stride == context_.group->world()) return bucket.get(all.select(0, first));
    Gradients sum = sum_ranks(bucket, all, first, 2 * stride);
    add_to(sum, sum_ranks(bucket, all, first + stride, 2 * stride));
    return sum;
  }

  StrategyContext context_;
  CanonicalOptions options_;
  std::vector<Bucket> buckets_;
  StepLayout layout_;
  std::vector<Instruction> program_;
  std::vector<size_t> order_;    ///< of this rank's micro-batches
  std::vector<Gradients> sums_;  ///< the stack
  size_t next_ = 0;              ///< next instruction
};

}  // namespace

std::unique_ptr<Strategy> make_canonical(const StrategyContext& context,
                                         const CanonicalOptions& options) {
  return std::make_unique<Canonical>(context, options);
}

}  // namespace accel
