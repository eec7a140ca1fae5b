#include "models/layers/expert_routing.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>
#include <utility>

#include "kernels/choice.h"
#include "kernels/product_type.h"

namespace accel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// Tokens of each expert, about equal where tensors have no data.
std::vector<int64_t> tokens_by_expert(const at::Tensor& experts, int64_t count) {
  std::vector<int64_t> out(static_cast<size_t>(count), experts.numel() / count);
  if (has_shapes_only()) {
    out.back() += experts.numel() % count;
    return out;
  }
  const at::Tensor counts = at::bincount(experts, {}, count).cpu();
  const auto* numbers = counts.const_data_ptr<int64_t>();
  return {numbers, numbers + count};
}

/// Rows of `x` by expert. Its backward pass sums the rows of a token in the order of its choices,
/// whatever the experts.
class GatherRows : public Function<GatherRows> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& tokens,
                            const at::Tensor& slots) {
    context->save_for_backward({slots});
    context->saved_data["tokens"] = x.size(0);
    context->saved_data["choices"] = x.size(0) == 0 ? 1 : tokens.size(0) / x.size(0);
    return x.index_select(0, tokens);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor rows = gradients[0].index_select(0, context->get_saved_variables()[0]);
    const int64_t tokens = context->saved_data["tokens"].toInt();
    const int64_t choices = context->saved_data["choices"].toInt();
    return {rows.view({tokens, choices, rows.size(1)}).sum(1), at::Tensor(), at::Tensor()};
  }
};

/// Rows by expert to the order of tokens and choices: a permutation, whose inverse is `order`.
class PermuteRows : public Function<PermuteRows> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& slots,
                            const at::Tensor& order) {
    context->save_for_backward({order});
    return x.index_select(0, slots);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gradients[0].index_select(0, context->get_saved_variables()[0]), at::Tensor(),
            at::Tensor()};
  }
};

/// int64 [T, k], without gradients.
at::Tensor chosen_experts(const at::Tensor& probabilities, const ExpertChoice& choice) {
  const at::NoGradGuard no_grad;
  const at::Tensor scores = choice.bias.defined() ? probabilities.add(choice.bias) : probabilities;
  return std::get<1>(scores.topk(choice.k, /*dim=*/-1));
}

}  // namespace

ExpertRouting route_to_experts(const at::Tensor& probabilities, const ExpertChoice& choice,
                               bool normalize) {
  const at::Tensor experts = chosen_experts(probabilities, choice);
  at::Tensor weights = probabilities.gather(-1, experts);
  if (normalize) weights = weights.div(weights.sum(-1, /*keepdim=*/true));
  const at::NoGradGuard no_grad;
  const at::Tensor flat = experts.flatten();
  const at::Tensor order = flat.argsort(/*stable=*/true, /*dim=*/0);
  return {order, order.argsort(/*stable=*/true, /*dim=*/0), weights,
          tokens_by_expert(flat, probabilities.size(-1))};
}

namespace {

at::Tensor run_experts(const at::Tensor& by_expert, const ExpertRouting& routing,
                       const ExpertFunction& expert) {
  const std::vector<at::Tensor> rows = by_expert.split_with_sizes(routing.counts);
  std::vector<at::Tensor> outputs;
  outputs.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) outputs.push_back(expert(i, rows[i]));
  return at::cat(outputs);
}

/// Rows of this rank for each of all experts to their outputs; experts are on the ranks.
at::Tensor run_on_ranks(const at::Tensor& by_expert, const ExpertRouting& routing,
                        const ExpertFunction& expert, const ExpertRanks& ranks) {
  const ExpertCounts counts = ranks.exchange_counts(routing.counts, by_expert.device());
  const size_t own = counts.front().size();
  const int64_t first = ranks.first_expert(static_cast<int64_t>(routing.counts.size()));
  std::vector<int64_t> sent, received, pieces;  // rows; of each rank and expert
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    const auto begin = routing.counts.begin() + static_cast<ptrdiff_t>(rank * own);
    sent.push_back(std::reduce(begin, begin + static_cast<ptrdiff_t>(own)));
    received.push_back(std::reduce(counts[rank].begin(), counts[rank].end()));
    pieces.insert(pieces.end(), counts[rank].begin(), counts[rank].end());
  }
  std::vector<at::Tensor> rows =
      ranks.exchange(by_expert.to(product_type(by_expert)), sent, received)
          .split_with_sizes(pieces);
  for (size_t i = 0; i < own; ++i) {
    std::vector<at::Tensor> of_expert;  // by rank
    std::vector<int64_t> sizes;
    for (size_t rank = 0; rank < counts.size(); ++rank) {
      of_expert.push_back(rows[rank * own + i]);
      sizes.push_back(counts[rank][i]);
    }
    of_expert = expert(static_cast<size_t>(first) + i, at::cat(of_expert)).split_with_sizes(sizes);
    for (size_t rank = 0; rank < counts.size(); ++rank) rows[rank * own + i] = of_expert[rank];
  }
  return ranks.exchange(at::cat(rows), received, sent);
}

}  // namespace

at::Tensor mix_experts(const at::Tensor& x, const ExpertRouting& routing,
                       const ExpertFunction& expert, const ExpertRanks* ranks) {
  const int64_t k = routing.weights.size(1);
  const at::Tensor tokens = routing.order.div(k, "floor");
  const at::Tensor rows = GatherRows::apply(x, tokens, routing.slots);
  const at::Tensor outputs =
      ranks ? run_on_ranks(rows, routing, expert, *ranks) : run_experts(rows, routing, expert);
  const at::Tensor by_token = PermuteRows::apply(outputs, routing.slots, routing.order)
                                  .view({x.size(0), k, outputs.size(1)});
  return by_token.mul(routing.weights.to(by_token.scalar_type()).unsqueeze(-1)).sum(1);
}

/// Sums over the layers of a pass. With n counted tokens in all layers, the loss is
/// coefficient * experts / n^2 * sum(reached * probabilities).
struct LoadBalance::State {
  double coefficient;
  at::Tensor mask;  ///< float32 [T, 1], or undefined
  BalanceRanks ranks;
  /// float32 [2 * experts + 1]: counted tokens that reach each expert, sums of its probabilities
  /// over counted tokens, and their number; undefined before the first layer.
  at::Tensor sums = {};
  bool is_finished = false;
  at::Tensor gradient = {};  ///< [experts]: of a counted token's probabilities; undefined: 0

  int64_t experts() const { return sums.size(0) / 2; }
  at::Tensor reached() const { return sums.narrow(0, 0, experts()); }
  at::Tensor probabilities() const { return sums.narrow(0, experts(), experts()); }
  at::Tensor tokens() const { return sums.select(0, 2 * experts()); }
  at::Tensor scale() const {
    return tokens().clamp_min(1).square().reciprocal().mul(static_cast<double>(experts()) *
                                                           coefficient);
  }
  /// Of one layer.
  void add(const at::Tensor& of_tokens, const ExpertChoice& choice) {
    const at::Tensor chosen =
        at::zeros_like(of_tokens).scatter(1, chosen_experts(of_tokens, choice), 1.0);
    const auto sum = [&](const at::Tensor& x) { return (mask.defined() ? x.mul(mask) : x).sum(0); };
    if (!sums.defined()) sums = at::zeros({2 * of_tokens.size(-1) + 1}, of_tokens.options());
    const at::Tensor load = sum(chosen);
    reached().add_(load);
    if (choice.load.defined()) at::Tensor(choice.load).add_(load);
    probabilities().add_(sum(of_tokens));
    tokens().add_(sum(at::ones({of_tokens.size(0), 1}, of_tokens.options())).squeeze(0));
  }
};

namespace {

using BalanceState = LoadBalance::State;

/// A shared state in an autograd context.
struct HeldState final : torch::CustomClassHolder {
  explicit HeldState(std::shared_ptr<BalanceState> held) : state(std::move(held)) {}
  std::shared_ptr<BalanceState> state;
};

constexpr auto kRoutingState = "state";

void hold(AutogradContext* context, const std::shared_ptr<BalanceState>& state) {
  context->saved_data[kRoutingState] =
      c10::IValue::make_capsule(c10::make_intrusive<HeldState>(state));
}

BalanceState& state_of(AutogradContext* context) {
  return *c10::static_intrusive_pointer_cast<HeldState>(
              context->saved_data[kRoutingState].toCapsule())
              ->state;
}

/// Identity. Its backward pass adds the gradient of the loss.
class BalancedLayer : public Function<BalancedLayer> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& probabilities,
                            const std::shared_ptr<BalanceState>& state) {
    hold(context, state);
    return probabilities.view_as(probabilities);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const BalanceState& state = state_of(context);
    if (!state.gradient.defined()) return {gradients[0], at::Tensor()};
    const at::Tensor own = state.mask.defined() ? state.mask.mul(state.gradient)
                                                : state.gradient.expand_as(gradients[0]);
    return {gradients[0].add(own), at::Tensor()};
  }
};

/// The output of the layers, and the loss. Its backward pass precedes those of the layers.
class BalancedOutput : public Function<BalancedOutput> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& output,
                               const std::shared_ptr<BalanceState>& state) {
    hold(context, state);
    const at::Tensor loss = state->scale().mul(state->reached().dot(state->probabilities()));
    const ContextRanks* const divides = state->ranks.context;
    return {output.view_as(output), divides ? loss.div(divides->size()) : loss};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    BalanceState& state = state_of(context);
    if (gradients[1].defined()) {
      state.gradient = gradients[1].mul(state.scale()).mul(state.reached()).div(state.ranks.tensor);
    }
    return {gradients[0], at::Tensor()};
  }
};

}  // namespace

LoadBalance::LoadBalance(double coefficient, const at::Tensor& mask, const BalanceRanks& ranks)
    : state_(std::make_shared<State>(
          State{coefficient, mask.defined() ? mask.unsqueeze(-1) : at::Tensor(), ranks})) {
  if (ranks.sums.defined()) state_->sums = ranks.sums.clone();
}

at::Tensor LoadBalance::add_layer(const at::Tensor& probabilities,
                                  const ExpertChoice& choice) const {
  if (!state_) return probabilities;
  if (!state_->is_finished) {
    const at::NoGradGuard no_grad;
    state_->add(probabilities, choice);
  }
  return BalancedLayer::apply(probabilities, state_);
}

LoadBalance::Result LoadBalance::finish(const at::Tensor& output) const {
  state_->is_finished = true;
  if (state_->ranks.context) state_->ranks.context->sum(state_->sums);
  const variable_list results = BalancedOutput::apply(output, state_);
  return {results[0], results[1]};
}

void LoadBalance::end_stage() const {
  state_->is_finished = true;
}

at::Tensor LoadBalance::sums() const {
  return state_->sums;
}

at::Tensor LoadBalance::gradient() const {
  return state_->gradient;
}

void LoadBalance::set_gradient(const at::Tensor& gradient) const {
  state_->gradient = gradient;
}

std::map<std::string, double> relative_loads(const at::Tensor& loads) {
  const at::Tensor relative = loads.div(loads.mean(1, /*keepdim=*/true).clamp_min(1));
  std::map<std::string, double> out = {{"expert_load/min", relative.min().item<double>()},
                                       {"expert_load/max", relative.max().item<double>()}};
  const at::Tensor of_experts = relative.mean(0).cpu();
  for (int64_t i = 0; i < of_experts.size(0); ++i) {
    out["expert_load/" + std::to_string(i)] = of_experts[i].item<double>();
  }
  return out;
}

}  // namespace accel
