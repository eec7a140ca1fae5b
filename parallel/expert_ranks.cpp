#include "parallel/expert_ranks.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "kernels/choice.h"
#include "kernels/memory/stored_outputs.h"
#include "parallel/held_group.h"

namespace accel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using Rows = std::vector<int64_t>;

int64_t sum_of(const Rows& rows) {
  int64_t sum = 0;
  for (const int64_t count : rows) sum += count;
  return sum;
}

at::Tensor exchanged(Communicator& group, const at::Tensor& x, const Rows& sent,
                     const Rows& received) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.front() = sum_of(received);
  at::Tensor out = at::empty(shape, x.options().requires_grad(false));
  group.start_all_to_all(out, x.contiguous(), received, sent, "tokens of experts")->wait();
  return out;
}

class RowExchange final : public torch::autograd::Function<RowExchange> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Rows& sent,
                            const Rows& received, const HeldGroupPtr& held) {
    hold(context, held);
    context->saved_data["sent"] = sent;
    context->saved_data["received"] = received;
    return store_output([&] { return exchanged(held->group(), x, sent, received); });
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Rows sent = context->saved_data["sent"].toIntVector();
    const Rows received = context->saved_data["received"].toIntVector();
    return {exchanged(group_of(context), gradients[0], received, sent), at::Tensor(), at::Tensor(),
            at::Tensor()};
  }
};

class GroupExpertRanks final : public ExpertRanks {
 public:
  explicit GroupExpertRanks(const std::shared_ptr<Communicator>& group)
      : ExpertRanks(group->rank(), group->world()), group_(c10::make_intrusive<HeldGroup>(group)) {}

  ExpertCounts exchange_counts(const Rows& by_expert, at::Device device) const override {
    const int64_t own = experts_per_rank(static_cast<int64_t>(by_expert.size()));
    const at::Tensor sent = at::tensor(by_expert, at::kLong).to(device);
    const at::Tensor received = at::empty_like(sent);
    const Rows equal(static_cast<size_t>(size()), own);
    group_->group().start_all_to_all(received, sent, equal, equal, "counts of tokens")->wait();
    return has_shapes_only() ? counts_like_own(by_expert, own) : counts_from(received, own);
  }

  at::Tensor exchange(const at::Tensor& x, const Rows& sent, const Rows& received) const override {
    return RowExchange::apply(x, sent, received, group_);
  }

 private:
  /// [ranks * own] to [rank][expert].
  ExpertCounts counts_from(const at::Tensor& received, int64_t own) const {
    const at::Tensor counts = received.cpu();
    const auto* next = counts.const_data_ptr<int64_t>();
    ExpertCounts out;
    for (int64_t rank = 0; rank < size(); ++rank, next += own) out.emplace_back(next, next + own);
    return out;
  }
  /// Where tensors have no data: other ranks send what this one keeps.
  ExpertCounts counts_like_own(const Rows& by_expert, int64_t own) const {
    const auto first = by_expert.begin() + first_expert(static_cast<int64_t>(by_expert.size()));
    return {static_cast<size_t>(size()), Rows(first, first + own)};
  }

  HeldGroupPtr group_;
};

}  // namespace

std::shared_ptr<const ExpertRanks> make_expert_ranks(const std::shared_ptr<Communicator>& group) {
  return std::make_shared<GroupExpertRanks>(group);
}

}  // namespace accel
