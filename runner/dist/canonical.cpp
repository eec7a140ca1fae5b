#include <ATen/Context.h>
#include <c10/core/GradMode.h>

#include <bit>
#include <stdexcept>

#include "core/sample_rng.h"
#include "runner/dist/buckets.h"
#include "runner/dist/strategy.h"

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
      throw std::logic_error("a canonical sum takes a power of two of ranks");
    }
  }

  void run(const WindowParts& parts, const Pass& pass) override {
    own_ = sum_here(parts, pass, context_.group->rank(), context_.group->world());
    if (own_.empty()) own_.resize(context_.parameters.size());
    if (parts.before_sums) parts.before_sums();
    const c10::NoGradGuard no_grad;
    size_t last = context_.parameters.size();  // buckets begin with the last parameters
    for (Bucket& bucket : buckets_) {
      for (size_t i = 0; i < bucket.size(); ++i) bucket.put(i, own_[last - 1 - i]);
      const at::Tensor all = context_.group->all_gather(bucket.flat(), "gradients");
      const Gradients sums = sum_ranks(bucket, all, 0, 1);
      for (size_t i = 0; i < bucket.size(); ++i) {
        bucket.parameter(i).tensor.mutable_grad() = sums[i];
      }
      last -= bucket.size();
    }
    own_.clear();
    seed_part(parts.step, parts.planned);  // what follows must not depend on who made which part
  }

 private:
  /// The sum over the parts that leave the remainder `first` when divided by `stride`; empty when
  /// the window has none of them.
  Gradients sum_here(const WindowParts& parts, const Pass& pass, int64_t first, int64_t stride) {
    if (first >= parts.planned) return {};
    if (parts.planned / stride % 2 == 0 && parts.planned % stride == 0) {
      Gradients sum = sum_here(parts, pass, first, 2 * stride);
      const Gradients more = sum_here(parts, pass, first + stride, 2 * stride);
      if (sum.empty()) return more;
      if (!more.empty()) add_to(sum, more);
      return sum;
    }
    Gradients sum;
    for (int64_t part = first; part < parts.planned; part += stride) {
      const Gradients more = pass_over(parts, pass, part);
      if (sum.empty()) {
        sum = more;
      } else if (!more.empty()) {
        add_to(sum, more);
      }
    }
    return sum;
  }

  void seed_part(int64_t step, int64_t part) const {
    at::manual_seed(
        SampleRng(options_.seed, static_cast<uint64_t>(step), static_cast<uint64_t>(part)).next());
  }

  /// The gradients of one part.
  Gradients pass_over(const WindowParts& parts, const Pass& pass, int64_t part) {
    for (size_t i = 0; i < parts.own.size(); ++i) {
      if (parts.own[i] != part) continue;
      seed_part(parts.step, part);
      pass(i);
      Gradients made;
      for (const NamedTensor& item : context_.parameters) {
        made.push_back(item.tensor.grad());
        item.tensor.mutable_grad().reset();
      }
      return made;
    }
    return {};
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
  Gradients own_;
};

}  // namespace

std::unique_ptr<Strategy> make_canonical(const StrategyContext& context,
                                         const CanonicalOptions& options) {
  return std::make_unique<Canonical>(context, options);
}

}  // namespace accel
