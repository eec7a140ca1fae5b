#include "parallel/ring_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <optional>

#include "kernels/choice.h"
#include "kernels/memory/stored_outputs.h"
#include "parallel/chunk_attention.h"

namespace accel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kIsCausal = "is_causal";
constexpr auto kRingPurpose = "keys and values of context parallelism";

/// A tensor on its way to the next rank, and the one from the rank before.
class Turn {
 public:
  Turn(Communicator& group, const at::Tensor& own) : sent_(own), received_(at::empty_like(own)) {
    const int64_t ranks = group.world();
    const int64_t next = (group.rank() + 1) % ranks, before = (group.rank() + ranks - 1) % ranks;
    pending_ = group.start_messages(
        {{Message::Kind::kSend, sent_, next}, {Message::Kind::kReceive, received_, before}},
        kRingPurpose);
  }
  at::Tensor wait() {
    pending_->wait();
    return received_;
  }

 private:
  at::Tensor sent_, received_;
  std::unique_ptr<Pending> pending_;
};

/// The part of a rank's attention to the keys of one rank that a causal mask leaves: queries from
/// `first_query`, and the first `keys` keys.
struct Part {
  int64_t first_query, keys;
  Visible visible;
};

/// Which keys of the sequence are visible: by the first key of each query of causal attention, or
/// by ContextAttention::visible of full attention. Undefined: all that causality leaves.
struct RingMask {
  bool is_causal;
  at::Tensor by_position;
};

/// The keys of rank `from` that all queries see. There is a kernel without a mask.
at::Tensor mask_of_keys(const Communicator& group, int64_t from, int64_t chunk,
                        const at::Tensor& visible) {
  const at::Tensor places = zigzag_positions(from, group.world(), chunk).to(visible.device());
  const at::Tensor own = visible.index_select(1, places);
  const bool has_values = own.device().is_cpu() && !has_shapes_only();
  if (has_values && own.all().item<bool>()) return {};
  return own.unsqueeze(1).unsqueeze(1);
}

/// Of equal chunks c and 2n - 1 - c on rank c of n: an earlier rank's first chunk precedes both of
/// ours and its second follows them; both chunks of a later rank precede our second one.
Part part_of(const Communicator& group, int64_t from, int64_t length, const RingMask& by) {
  const int64_t own = group.rank(), chunk = length / 2;
  const at::Tensor& starts = by.by_position;
  Part part = {0, length, {.causal = by.is_causal && from == own}};
  if (!by.is_causal) {
    if (starts.defined()) part.visible.mask = mask_of_keys(group, from, chunk, starts);
    return part;
  }
  if (from < own) part.keys = chunk;
  if (from > own) part.first_query = chunk;
  if (!starts.defined()) return part;
  const auto positions = [&](int64_t rank) {
    return zigzag_positions(rank, group.world(), chunk).to(starts.device());
  };
  const at::Tensor queries = positions(own).slice(0, part.first_query);
  const at::Tensor keys = positions(from).slice(0, 0, part.keys);
  at::Tensor mask = starts.index_select(1, queries).unsqueeze(2).le(keys);
  if (part.visible.causal) mask = mask.logical_and(queries.unsqueeze(1).ge(keys.unsqueeze(0)));
  part.visible.mask = mask.unsqueeze(1);
  return part;
}

KeyChunk keys_of(const Part& part, const at::Tensor& visiting) {
  return {visiting[0].slice(2, 0, part.keys), visiting[1].slice(2, 0, part.keys), part.visible};
}

PartialAttention rows(const PartialAttention& all, int64_t first) {
  return {all.out.slice(2, first), all.logs.slice(2, first)};
}

PartialAttention nothing_seen(const at::Tensor& query) {
  const at::ScalarType type = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto options = query.options().dtype(type);
  return {at::zeros(query.sizes(), options),
          at::full(query.sizes().slice(0, 3), -std::numeric_limits<double>::infinity(), options)};
}

/// Output and log-sum-exp of attention to the keys of all ranks. `own`: keys and values, [2, ...].
variable_list attend_ring(const at::Tensor& query, const at::Tensor& own, const RingMask& by,
                          Communicator& group) {
  const int64_t ranks = group.world();
  PartialAttention all = nothing_seen(query);
  at::Tensor visiting = own;
  for (int64_t i = 0; i < ranks; ++i) {
    std::optional<Turn> turn;
    if (i + 1 < ranks) turn.emplace(group, visiting);
    const int64_t from = (group.rank() + ranks - i) % ranks;
    const Part part = part_of(group, from, query.size(2), by);
    PartialAttention some = rows(all, part.first_query);
    merge(some, attend_chunk(query.slice(2, part.first_query), keys_of(part, visiting)));
    if (turn) visiting = turn->wait();
  }
  return {all.out.to(query.scalar_type()), all.logs};
}

class Ring final : public torch::autograd::Function<Ring> {
 public:
  /// `own`: keys and values, [2, ...].
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query,
                            const at::Tensor& own, const RingMask& by, const HeldGroupPtr& held) {
    const variable_list made =
        store_outputs([&] { return attend_ring(query, own, by, held->group()); });
    hold(context, held);
    variable_list saved = {query, own, made[0], made[1]};
    if (by.by_position.defined()) saved.push_back(by.by_position);
    context->save_for_backward(saved);
    context->saved_data[kIsCausal] = by.is_causal;
    return made[0];
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    Communicator& group = group_of(context);
    const int64_t ranks = group.world();
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& query = saved[0];
    const RingMask by = {context->saved_data[kIsCausal].toBool(),
                         saved.size() > 4 ? saved[4] : at::Tensor()};
    const PartialAttention all = {saved[2], saved[3]};
    const auto sums = all.logs.options();
    const at::Tensor of_query = at::zeros(query.sizes(), sums);
    at::Tensor visiting = saved[1], of_visiting = at::zeros(visiting.sizes(), sums);
    for (int64_t i = 0; i < ranks; ++i) {
      std::optional<Turn> turn;
      if (i + 1 < ranks) turn.emplace(group, visiting);
      const int64_t from = (group.rank() + ranks - i) % ranks;
      const Part part = part_of(group, from, query.size(2), by);
      const AttentionSlopes slopes = attend_chunk_backward(
          query.slice(2, part.first_query), keys_of(part, visiting), rows(all, part.first_query),
          gradients[0].slice(2, part.first_query));
      of_query.slice(2, part.first_query).add_(slopes.query);
      of_visiting[0].slice(2, 0, part.keys).add_(slopes.key);
      of_visiting[1].slice(2, 0, part.keys).add_(slopes.value);
      if (turn) visiting = turn->wait();
      of_visiting = Turn(group, of_visiting).wait();  // the last turn brings them home
    }
    const auto type = query.scalar_type();
    return {of_query.to(type), of_visiting.to(type), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor ring_attention(const RingCall& call, const HeldGroupPtr& group) {
  const RingMask mask = {call.is_causal, call.is_causal ? call.starts : call.visible};
  return Ring::apply(call.query, at::stack({call.key, call.value}), mask, group);
}

at::Tensor zigzag_positions(int64_t rank, int64_t ranks, int64_t chunk) {
  const int64_t second = 2 * ranks - 1 - rank;
  return at::cat({at::arange(rank * chunk, (rank + 1) * chunk, at::kLong),
                  at::arange(second * chunk, (second + 1) * chunk, at::kLong)});
}

}  // namespace accel
