#include "parallel/tensor_ranks.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "kernels/memory/stored_outputs.h"
#include "parallel/held_group.h"
#include "parallel/own_random_stream.h"
#include "parallel/row_share.h"

namespace accel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kTensorPurpose = "activations of tensor parallelism";

at::Tensor summed(Communicator& group, const at::Tensor& x) {
  at::Tensor sum = x.clone(at::MemoryFormat::Contiguous);
  group.all_reduce(sum, ReduceOp::kSum, kTensorPurpose);
  return sum;
}

/// The parts of all ranks along dimension 1.
at::Tensor gathered(Communicator& group, const at::Tensor& part) {
  const at::Tensor own = part.transpose(0, 1).contiguous();
  return group.all_gather(own, kTensorPurpose).flatten(0, 1).transpose(0, 1).contiguous();
}

/// This rank's part, along dimension 1, of the sum over all ranks.
at::Tensor scattered(Communicator& group, const at::Tensor& x) {
  at::Tensor all = x.transpose(0, 1).contiguous();
  if (all.is_alias_of(x)) all = all.clone();  // the collective may overwrite it
  std::vector<int64_t> shape = all.sizes().vec();
  shape.front() /= group.world();
  at::Tensor part = at::empty(shape, all.options());
  group.start_reduce_scatter(part, all, ReduceOp::kSum, kTensorPurpose)->wait();
  return part.transpose(0, 1).contiguous();
}

/// Identity, whose gradient is summed over the ranks.
class Copy final : public torch::autograd::Function<Copy> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const HeldGroupPtr& held) {
    hold(context, held);
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {summed(group_of(context), gradients[0]), at::Tensor()};
  }
};

/// Sum over the ranks, whose gradient each of them has.
class Sum final : public torch::autograd::Function<Sum> {
 public:
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& x,
                            const HeldGroupPtr& held) {
    return store_output([&] { return summed(held->group(), x); });
  }
  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {gradients[0], at::Tensor()};
  }
};

class GatherSequence final : public torch::autograd::Function<GatherSequence> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const HeldGroupPtr& held) {
    hold(context, held);
    return gathered(held->group(), x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {scattered(group_of(context), gradients[0]), at::Tensor()};
  }
};

class ScatterSequence final : public torch::autograd::Function<ScatterSequence> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const HeldGroupPtr& held) {
    hold(context, held);
    return store_output([&] { return scattered(held->group(), x); });
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gathered(group_of(context), gradients[0]), at::Tensor()};
  }
};

/// Gathers the features of all ranks; in the backward pass each rank keeps its part of the
/// gradient.
class GatherFeatures final : public torch::autograd::Function<GatherFeatures> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, int64_t size,
                            const HeldGroupPtr& held) {
    Communicator& group = held->group();
    const RowShare own = row_share(size, group.world(), group.rank());
    context->saved_data["first"] = own.first;
    context->saved_data["count"] = own.count;
    std::vector<int64_t> shape = x.sizes().vec();
    const at::Tensor rows = x.reshape({-1, own.count}).t();
    at::Tensor padded =
        at::empty({rows_per_rank(size, group.world()), rows.size(1)}, x.options()).zero_();
    padded.narrow(0, 0, own.count).copy_(rows);
    shape.back() = size;
    return group.all_gather(padded, kTensorPurpose)
        .flatten(0, 1)
        .narrow(0, 0, size)
        .t()
        .reshape(shape);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const int64_t first = context->saved_data["first"].toInt();
    const int64_t count = context->saved_data["count"].toInt();
    return {gradients[0].narrow(-1, first, count), at::Tensor(), at::Tensor()};
  }
};

class GroupTensorRanks final : public TensorRanks {
 public:
  GroupTensorRanks(const std::shared_ptr<Communicator>& group, bool sequence)
      : TensorRanks(group->rank(), group->world()),
        group_(c10::make_intrusive<HeldGroup>(group)),
        sequence_(sequence) {}

  bool divides_sequence() const override { return sequence_ && c10::GradMode::is_enabled(); }
  at::Tensor enter(const at::Tensor& x) const override {
    return divides_sequence() ? GatherSequence::apply(x, group_) : Copy::apply(x, group_);
  }
  at::Tensor leave(const at::Tensor& x) const override {
    return divides_sequence() ? ScatterSequence::apply(x, group_) : Sum::apply(x, group_);
  }
  at::Tensor gather_features(const at::Tensor& x, int64_t size) const override {
    return GatherFeatures::apply(x, size, group_);
  }
  at::Tensor reduce(const at::Tensor& x, Reduce how) const override {
    at::Tensor out = x.detach().clone(at::MemoryFormat::Contiguous);
    group_->group().all_reduce(out, how == Reduce::kMax ? ReduceOp::kMax : ReduceOp::kSum,
                               kTensorPurpose);
    return how == Reduce::kMean ? out.div(size()) : out;
  }
  std::unique_ptr<RandomScope> own_random_stream(at::Device device) const override {
    return make_own_random_stream(rank(), device);
  }

 private:
  HeldGroupPtr group_;
  bool sequence_;
};

}  // namespace

std::shared_ptr<const TensorRanks> make_tensor_ranks(const std::shared_ptr<Communicator>& group,
                                                     bool sequence) {
  return std::make_shared<GroupTensorRanks>(group, sequence);
}

}  // namespace accel
