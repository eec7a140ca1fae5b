#include <c10/core/GradMode.h>

#include <utility>

#include "parallel/buckets.h"
#include "parallel/canonical_order.h"
#include "parallel/strategy.h"

namespace accel {
namespace {

class Canonical final : public Strategy {
 public:
  Canonical(const StrategyContext& context, const CanonicalOptions& options)
      : context_(context),
        buckets_(make_buckets(context.parameters, options.bucket_bytes)),
        order_(options.seed, context.group->rank(), context.group->world()) {}

  void begin(const StepLayout& layout) override { order_.begin(layout); }
  size_t micro_batch_at(size_t k) const override { return order_.micro_batch_at(k); }
  void before_pass(bool /*last*/) override { order_.before_pass(); }

  void after_pass() override {
    Gradients made;
    for (const Parameter& item : context_.parameters) {
      made.push_back(item.local.grad());
      item.local.mutable_grad().reset();
    }
    order_.after_pass(std::move(made));
  }

  void finish() override {
    Gradients own = order_.finish();
    if (own.empty()) own.resize(context_.parameters.size());
    const c10::NoGradGuard no_grad;
    size_t last = context_.parameters.size();  // buckets are in reverse order of parameters
    for (Bucket& bucket : buckets_) {
      for (size_t i = 0; i < bucket.size(); ++i) bucket.put(i, own[last - 1 - i]);
      const at::Tensor all = context_.group->all_gather(bucket.flat(), "gradients");
      const Gradients sums = tree_sum(
          context_.group->world(), [&](int64_t rank) { return bucket.get(all.select(0, rank)); },
          &add_gradients);
      for (size_t i = 0; i < bucket.size(); ++i) {
        bucket.parameter(i).local.mutable_grad() = sums[i];
      }
      last -= bucket.size();
    }
  }

 private:
  StrategyContext context_;
  std::vector<Bucket> buckets_;
  CanonicalOrder order_;
};

}  // namespace

std::unique_ptr<Strategy> make_canonical(const StrategyContext& context,
                                         const CanonicalOptions& options) {
  return std::make_unique<Canonical>(context, options);
}

}  // namespace accel
