#include "parallel/context_ranks.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "core/base/error.h"
#include "core/base/text.h"
#include "kernels/attention_scores.h"
#include "parallel/own_random_stream.h"
#include "parallel/ring_attention.h"

namespace accel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kGathered = "keys and values of context parallelism";
constexpr auto kGatheredPositions = "positions of context parallelism";
constexpr auto kFirstPosition = "first position of context parallelism";
constexpr auto kExchanged = "heads of context parallelism";

/// [...] of each rank to [ranks, ...]; gradients are summed over the ranks.
class GatherRanks final : public torch::autograd::Function<GatherRanks> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const HeldGroupPtr& held) {
    hold(context, held);
    return held->group().all_gather(x.contiguous(), kGathered);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor all = gradients[0].clone(at::MemoryFormat::Contiguous);
    at::Tensor own = at::empty(all.sizes().slice(1), all.options());
    group_of(context).start_reduce_scatter(own, all, ReduceOp::kSum, kGathered)->wait();
    return {own, at::Tensor()};
  }
};

/// [ranks, ...]: row i goes to rank i, and row i of the result comes from it.
at::Tensor exchanged(Communicator& group, const at::Tensor& x) {
  const at::Tensor in = x.contiguous();
  at::Tensor out = at::empty_like(in);
  const std::vector<int64_t> each(static_cast<size_t>(group.world()), 1);
  group.start_all_to_all(out, in, each, each, kExchanged)->wait();
  return out;
}

class HeadExchange final : public torch::autograd::Function<HeadExchange> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const HeldGroupPtr& held) {
    hold(context, held);
    return exchanged(held->group(), x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {exchanged(group_of(context), gradients[0]), at::Tensor()};
  }
};

/// Of [batch, positions, width] on all ranks; the first rank has the first position.
class FirstPosition final : public torch::autograd::Function<FirstPosition> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const HeldGroupPtr& held) {
    hold(context, held);
    context->saved_data["sizes"] = x.sizes();
    at::Tensor first = x.select(1, 0).clone(at::MemoryFormat::Contiguous);
    held->group().broadcast(first, 0, kFirstPosition);
    return first;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    Communicator& group = group_of(context);
    const at::Tensor sum = gradients[0].clone(at::MemoryFormat::Contiguous);
    group.all_reduce(sum, ReduceOp::kSum, kFirstPosition);
    at::Tensor own = at::zeros(context->saved_data["sizes"].toIntVector(), sum.options());
    if (group.rank() == 0) own.select(1, 0).copy_(sum);
    return {own, at::Tensor()};
  }
};

/// As autocast casts the inputs of scaled_dot_product_attention.
at::Tensor cast(const at::Tensor& x) {
  const at::DeviceType device = x.device().type();
  if (!at::autocast::is_autocast_enabled(device)) return x;
  return x.to(at::autocast::get_autocast_dtype(device));
}

/// [batch or 1, 1, 1, keys] of full attention; undefined: all keys are visible.
at::Tensor mask_of_keys(const ContextAttention& call) {
  return call.visible.defined() ? call.visible.unsqueeze(1).unsqueeze(1) : at::Tensor();
}

at::Tensor attend_whole(const ContextAttention& call, const AttentionInputs& inputs) {
  return scored_attention(inputs, {.softcap = call.softcap, .dropout = call.dropout});
}

int64_t rounded_up(int64_t count, int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

class GroupContextRanks : public ContextRanks {
 public:
  GroupContextRanks(const std::shared_ptr<Communicator>& group, const ContextOptions& options)
      : ContextRanks(group->rank(), group->world()),
        group_(c10::make_intrusive<HeldGroup>(group)),
        tensor_ranks_(options.tensor_ranks),
        multiple_(options.sequence_parallel ? options.tensor_ranks : 1) {}

  void check_heads(int64_t, int64_t) const override {}
  bool has_whole_scores() const override { return true; }
  at::Tensor own_positions(int64_t length) const override {
    const int64_t chunks = 2 * size();
    const int64_t chunk = (length + chunks - 1) / chunks;
    return zigzag_positions(rank(), size(), rounded_up(chunk, multiple_ / std::gcd(multiple_, 2)));
  }
  void sum(const at::Tensor& values) const override {
    group_->group().all_reduce(values, ReduceOp::kSum, "sums of context parallelism");
  }
  at::Tensor gather_positions(const at::Tensor& own, int64_t length) const override {
    const at::Tensor places = own_positions(length).to(own.device());
    const at::Tensor all = group_->group().all_gather(own.contiguous(), kGatheredPositions);
    const at::Tensor order = group_->group().all_gather(places, kGatheredPositions).flatten();
    const at::Tensor by_rank = all.transpose(0, 1).flatten(1);
    return at::empty_like(by_rank).index_copy_(1, order, by_rank).narrow(1, 0, length);
  }
  at::Tensor first_position(const at::Tensor& x) const override {
    return FirstPosition::apply(x, group_);
  }
  std::unique_ptr<RandomScope> own_random_stream(at::Device device) const override {
    return make_own_random_stream(rank(), device);
  }

 protected:
  const HeldGroupPtr& group() const { return group_; }
  int64_t tensor_ranks() const { return tensor_ranks_; }
  int64_t multiple() const { return multiple_; }

 private:
  HeldGroupPtr group_;
  int64_t tensor_ranks_;
  int64_t multiple_;  ///< of which the number of positions of a rank is one
};

class RingRanks final : public GroupContextRanks {
 public:
  using GroupContextRanks::GroupContextRanks;

  bool has_whole_scores() const override { return false; }
  at::Tensor attend(const ContextAttention& call) const override {
    return ring_attention({.query = cast(call.query),
                           .key = cast(call.key),
                           .value = cast(call.value),
                           .starts = call.starts,
                           .is_causal = call.is_causal,
                           .visible = call.visible},
                          group());
  }
};

class AllGatherRanks final : public GroupContextRanks {
 public:
  using GroupContextRanks::GroupContextRanks;

  at::Tensor attend(const ContextAttention& call) const override {
    const at::Tensor own = at::stack({cast(call.key), cast(call.value)}, 3);
    const at::Tensor all = in_order(GatherRanks::apply(own, group()));
    if (!call.is_causal) {
      return attend_whole(
          call, {cast(call.query), all.select(3, 0), all.select(3, 1), mask_of_keys(call), false});
    }
    const int64_t chunk = call.query.size(2) / 2;
    return at::cat({of_chunk(call, all, 0, (rank() + 1) * chunk),
                    of_chunk(call, all, chunk, (2 * size() - rank()) * chunk)},
                   2);
  }

 private:
  /// Chunks of [ranks, batch, heads, 2 chunk, ...] in the order of the sequence.
  static at::Tensor in_order(const at::Tensor& all) {
    const std::vector<at::Tensor> halves = all.chunk(2, 3);
    const at::Tensor chunks = at::cat({halves[0], halves[1].flip(0)});
    return chunks.permute({1, 2, 0, 3, 4, 5}).flatten(2, 3);
  }

  /// Attention of the chunk of queries from `first`, the last one that sees `keys` keys.
  static at::Tensor of_chunk(const ContextAttention& call, const at::Tensor& all, int64_t first,
                             int64_t keys) {
    const int64_t chunk = call.query.size(2) / 2;
    const at::Tensor query = cast(call.query).narrow(2, first, chunk);
    const at::Tensor places = at::arange(keys, at::TensorOptions(at::kLong).device(query.device()));
    const at::Tensor own = places.slice(0, keys - chunk);
    at::Tensor mask = own.unsqueeze(1).ge(places);
    if (call.starts.defined()) {
      const at::Tensor starts = call.starts.slice(1, keys - chunk, keys);
      mask = starts.unsqueeze(2).le(places).logical_and(mask).unsqueeze(1);
    }
    const at::Tensor seen = all.narrow(2, 0, keys);
    return attend_whole(call, {query, seen.select(3, 0), seen.select(3, 1), mask, false});
  }
};

class UlyssesRanks final : public GroupContextRanks {
 public:
  using GroupContextRanks::GroupContextRanks;

  void check_heads(int64_t heads, int64_t kv_heads) const override {
    const auto refuse = [&](const char* name, int64_t count) {
      const std::string with_tensor =
          tensor_ranks() > 1 ? text(" x 'tp' {}", tensor_ranks()) : std::string();
      throw Error(
          ExitCode::kRecipe,
          text("'sp' {}{} does not divide the model's '{}' {}", size(), with_tensor, name, count),
          "use a divisor, or 'cp', which divides no heads");
    };
    if (heads % (size() * tensor_ranks()) != 0) refuse("num_heads", heads);
    const int64_t own = std::max<int64_t>(kv_heads / tensor_ranks(), 1);
    if (own % size() != 0 && size() % own != 0) refuse("num_kv_heads", kv_heads);
  }
  at::Tensor own_positions(int64_t length) const override {
    const int64_t part = rounded_up((length + size() - 1) / size(), multiple());
    return at::arange(rank() * part, (rank() + 1) * part, at::kLong);
  }
  at::Tensor attend(const ContextAttention& call) const override {
    const at::Tensor query = by_rank(cast(call.query)), key = by_rank(cast(call.key)),
                     value = by_rank(cast(call.value));
    const at::Tensor all = HeadExchange::apply(at::cat({query, key, value}, 2), group())
                               .permute({1, 2, 0, 3, 4})
                               .flatten(2, 3);  // [batch, heads of q, k, v, length, width]
    const std::vector<at::Tensor> parts =
        all.split_with_sizes({query.size(2), key.size(2), value.size(2)}, 1);
    const bool packed = call.starts.defined();
    const at::Tensor mask = packed ? mask_of(call.starts) : mask_of_keys(call);
    const at::Tensor out =
        attend_whole(call, {parts[0], parts[1], parts[2], mask, call.is_causal && !packed});
    const at::Tensor sent = out.unflatten(2, {size(), -1}).permute({2, 0, 1, 3, 4});
    return HeadExchange::apply(sent, group()).transpose(0, 1).flatten(1, 2);
  }

 private:
  /// [batch, heads, positions, width] to [ranks, batch, heads of a rank, positions, width]; fewer
  /// heads than ranks are repeated.
  at::Tensor by_rank(const at::Tensor& x) const {
    const at::Tensor heads = x.size(1) < size() ? x.repeat_interleave(size() / x.size(1), 1) : x;
    return heads.unflatten(1, {size(), -1}).transpose(0, 1);
  }

  static at::Tensor mask_of(const at::Tensor& starts) {
    const at::Tensor places = at::arange(starts.size(1), starts.options());
    return starts.unsqueeze(2).le(places).tril().unsqueeze(1);
  }
};

}  // namespace

std::shared_ptr<const ContextRanks> make_context_ranks(const std::shared_ptr<Communicator>& group,
                                                       const ContextOptions& options) {
  switch (options.method) {
    case ContextMethod::kRing:
      return std::make_shared<RingRanks>(group, options);
    case ContextMethod::kAllGather:
      return std::make_shared<AllGatherRanks>(group, options);
    case ContextMethod::kUlysses:
      return std::make_shared<UlyssesRanks>(group, options);
  }
  throw std::logic_error("unknown method of context parallelism");
}

}  // namespace accel
