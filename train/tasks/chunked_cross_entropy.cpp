#include "train/tasks/chunked_cross_entropy.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/api/targets.h"
#include "kernels/cuda_vocabulary_loss.h"
#include "kernels/product_type.h"
#include "kernels/without_autocast.h"
#include "models/layers/sampled_labels.h"

namespace accel {
namespace {

/// Rows of the vocabulary that this rank has, and the reductions over all of them.
class VocabularyRows {
 public:
  VocabularyRows(const DividedVocabulary& vocabulary, int64_t count)
      : ranks_(vocabulary.ranks), first_(vocabulary.first()), count_(count) {}

  /// Log-probabilities of this rank's logits [tokens, rows] over the vocabulary.
  at::Tensor log_softmax(const at::Tensor& logits) const {
    if (!ranks_) return at::log_softmax(logits, /*dim=*/1);
    const at::Tensor most = ranks_->reduce(logits.amax(1, /*keepdim=*/true), Reduce::kMax);
    const at::Tensor shifted = logits.sub(most);
    const at::Tensor sums = shifted.exp().sum(1, /*keepdim=*/true);
    return shifted.sub(ranks_->reduce(sums, Reduce::kSum).log());
  }

  /// The sum of the targets' negative log-probabilities; masked targets do not count.
  at::Tensor negative_log_likelihood(const at::Tensor& scores, const at::Tensor& targets) const {
    if (!ranks_) return at::nll_loss(scores, targets, {}, at::Reduction::Sum, kIgnoredTarget);
    const OwnTargets own = own_targets(targets);
    const at::Tensor found = scores.gather(1, own.index).mul(own.are_own);
    return ranks_->reduce(found, Reduce::kSum).sum().neg();
  }

  /// Subtracts 1 at the targets of this rank.
  void subtract_targets(const at::Tensor& targets, const at::Tensor& scores) const {
    const OwnTargets own = own_targets(targets);
    scores.scatter_add_(1, own.index, own.are_own.to(scores.scalar_type()).neg());
  }

  /// The likeliest tokens, the first of equal ones, by their log-probabilities.
  at::Tensor argmax(const at::Tensor& scores) const {
    if (!ranks_) return scores.argmax(1);
    const auto [most, index] = scores.max(1);
    const at::Tensor is_most = most.eq(ranks_->reduce(most, Reduce::kMax));
    // The least row by the greatest of negative ones.
    const at::Tensor rows = index.add(first_).neg();
    return ranks_->reduce(rows.masked_fill(is_most.logical_not(), kNoRow), Reduce::kMax).neg();
  }

 private:
  static constexpr int64_t kNoRow = std::numeric_limits<int64_t>::min();

  /// Both [tokens, 1].
  struct OwnTargets {
    at::Tensor index;    ///< in this rank's rows; 0 for other targets
    at::Tensor are_own;  ///< whether this rank has the target's row; never a masked target's
  };

  OwnTargets own_targets(const at::Tensor& targets) const {
    const at::Tensor rows = targets.sub(first_);
    const at::Tensor own =
        rows.ge(0).logical_and(rows.lt(count_)).logical_and(targets.ne(kIgnoredTarget));
    return {rows.masked_fill(own.logical_not(), 0).unsqueeze(1), own.unsqueeze(1)};
  }

  const TensorRanks* ranks_;
  int64_t first_;
  int64_t count_;
};

/// Iterates over the tokens in chunks. Autocast is off inside: its cache would keep a copy of the
/// weight without gradient.
class VocabularyChunks {
 public:
  VocabularyChunks(const VocabularyHead& head, int64_t chunk)
      : VocabularyChunks(head, chunk, product_type(head.hidden)) {}
  /// Products in `type`, as of a forward pass.
  VocabularyChunks(const VocabularyHead& head, int64_t chunk, at::ScalarType type)
      : type_(type),
        hidden_(head.hidden.to(type_)),
        weight_(head.weight.to(type_)),
        bias_(head.bias.defined() ? head.bias.to(type_) : at::Tensor()),
        targets_(head.targets),
        count_(head.targets.ne(kIgnoredTarget).sum().clamp_min(1).to(at::kFloat)),
        rows_(head.vocabulary, head.weight.size(0)),
        softcap_(head.softcap),
        chunk_(chunk) {}

  /// Calls visit(start, hidden, targets, log_probabilities) for each chunk; the visitor may
  /// overwrite the last argument. Returns the mean loss.
  template <class Visit>
  at::Tensor each(Visit visit) const {
    at::Tensor total = at::zeros({}, hidden_.options().dtype(at::kDouble));
    for (int64_t start = 0; start < targets_.size(0); start += chunk_) {
      const int64_t length = std::min(chunk_, targets_.size(0) - start);
      const at::Tensor hidden = hidden_.narrow(0, start, length);
      const at::Tensor targets = targets_.narrow(0, start, length);
      const auto bias = bias_.defined() ? std::optional(bias_) : std::nullopt;
      at::Tensor scores =
          rows_.log_softmax(capped(at::linear(hidden, weight_, bias).to(at::kFloat)));
      total.add_(rows_.negative_log_likelihood(scores, targets));
      visit(start, hidden, targets, scores);
    }
    return total.to(at::kFloat).div(count_);
  }

  /// Converts log-probabilities to the gradient of the mean loss with respect to the logits, in
  /// place.
  at::Tensor logit_gradient(const at::Tensor& targets, at::Tensor& scores) const {
    rows_.subtract_targets(targets, scores.exp_());
    const at::Tensor counts = targets.ne(kIgnoredTarget);
    return uncapped(scores.mul_(counts.to(at::kFloat).div(count_).unsqueeze(1))).to(type_);
  }

  /// Converts log-probabilities to the gradient with respect to the logits, in place, for
  /// gradients [chunk] of the targets' log-probabilities.
  at::Tensor logit_gradient_of(const at::Tensor& by_target, const at::Tensor& targets,
                               at::Tensor& scores) const {
    rows_.subtract_targets(targets, scores.exp_());
    return uncapped(scores.mul_(by_target.neg().unsqueeze(1))).to(type_);
  }

  at::Tensor argmax(const at::Tensor& scores) const { return rows_.argmax(scores); }
  const at::Tensor& weight() const { return weight_; }
  at::ScalarType type() const { return type_; }

 private:
  /// Keeps the derivative, 1 - tanh^2, for uncapped().
  at::Tensor capped(const at::Tensor& logits) const {
    if (softcap_ == 0) return logits;
    const at::Tensor bounded = logits.div(softcap_).tanh();
    slope_ = bounded.square().neg_().add_(1);
    return bounded.mul(softcap_);
  }
  /// The gradient of the chunk's logits before capped() from that after it, in place.
  at::Tensor uncapped(at::Tensor gradient) const {
    return softcap_ == 0 ? gradient : gradient.mul_(slope_);
  }

  at::ScalarType type_;  // read before autocast is turned off
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
  at::Tensor hidden_, weight_, bias_, targets_;
  at::Tensor count_;
  VocabularyRows rows_;
  double softcap_;
  mutable at::Tensor slope_;  ///< [chunk, rows], of the chunk that each() visits
  int64_t chunk_;
};

struct VocabularyChunking {
  at::Tensor targets;
  DividedVocabulary vocabulary;
  int64_t chunk;
  double softcap;
};

/// Adds by_logits^T hidden to the gradient of the weight.
void add_weight_gradient(at::Tensor& by_weight, const at::Tensor& by_logits,
                         const at::Tensor& hidden) {
  if (by_logits.scalar_type() == by_weight.scalar_type()) {
    by_weight.addmm_(by_logits.t(), hidden);
  } else {
    by_weight.add_(by_logits.t().mm(hidden));
  }
}

class ChunkedCrossEntropy final : public torch::autograd::Function<ChunkedCrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                            const VocabularyChunking& by) {
    const VocabularyHead head = {hidden,        weight,     by.targets,
                                 by.vocabulary, by.softcap, bias.value_or(at::Tensor())};
    const auto fused = loss_by_kernels(head, by.chunk);
    const VocabularyLoss found = fused ? *fused : loss_by_operators(head, by.chunk);
    context->save_for_backward({found.by_hidden, found.by_weight, found.by_bias});
    return found.mean;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& by_loss) {
    torch::autograd::variable_list gradients = context->get_saved_variables();
    for (at::Tensor& gradient : gradients) {
      if (gradient.defined()) gradient = gradient.mul(by_loss[0]);
    }
    gradients.emplace_back();
    return gradients;
  }

 private:
  static std::optional<VocabularyLoss> loss_by_kernels(const VocabularyHead& head, int64_t chunk) {
    if (head.vocabulary.ranks || head.softcap != 0) return std::nullopt;
    const at::ScalarType type = product_type(head.hidden);
    const WithoutAutocast no_autocast(head.hidden.device().type());
    const at::Tensor hidden = head.hidden.to(type).contiguous(), weight = head.weight.to(type);
    const at::Tensor bias = head.bias.defined() ? head.bias.to(type) : at::Tensor();
    auto found = cuda_vocabulary_loss({.hidden = hidden,
                                       .weight = weight,
                                       .bias = bias,
                                       .targets = head.targets,
                                       .ignored = kIgnoredTarget,
                                       .chunk = chunk,
                                       .needs_weight_gradient = head.weight.requires_grad()});
    if (!found) return found;
    found->by_hidden = found->by_hidden.to(head.hidden.scalar_type());
    if (found->by_weight.defined()) {
      found->by_weight = found->by_weight.to(head.weight.scalar_type());
    }
    if (found->by_bias.defined()) found->by_bias = found->by_bias.to(head.bias.scalar_type());
    return found;
  }

  static VocabularyLoss loss_by_operators(const VocabularyHead& head, int64_t chunk) {
    const VocabularyChunks chunks(head, chunk);
    VocabularyLoss found;
    found.by_hidden = at::empty_like(head.hidden);
    if (head.weight.requires_grad()) found.by_weight = at::zeros_like(head.weight);
    if (head.bias.defined()) found.by_bias = at::zeros_like(head.bias);
    found.mean = chunks.each(
        [&](int64_t start, const at::Tensor& part, const at::Tensor& wanted, at::Tensor& scores) {
          const at::Tensor by_logits = chunks.logit_gradient(wanted, scores);
          found.by_hidden.narrow(0, start, part.size(0)).copy_(by_logits.mm(chunks.weight()));
          if (found.by_weight.defined()) add_weight_gradient(found.by_weight, by_logits, part);
          if (found.by_bias.defined()) found.by_bias.add_(by_logits.sum(0));
        });
    return found;
  }
};

class ChunkedLogProbs final : public torch::autograd::Function<ChunkedLogProbs> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& weight, const at::Tensor& targets,
                            const VocabularyChunking& by) {
    const VocabularyChunks chunks({hidden, weight, targets, {}, by.softcap}, by.chunk);
    at::Tensor out = at::empty(targets.sizes(), hidden.options().dtype(at::kFloat));
    chunks.each([&](int64_t start, const at::Tensor& part, const at::Tensor& wanted,
                    const at::Tensor& scores) {
      out.narrow(0, start, part.size(0)).copy_(scores.gather(1, wanted.unsqueeze(1)).squeeze(1));
    });
    context->save_for_backward({hidden, weight, targets});
    context->saved_data["chunk"] = by.chunk;
    context->saved_data["softcap"] = by.softcap;
    context->saved_data["type"] = static_cast<int64_t>(chunks.type());
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& by_out) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &hidden = saved[0], &weight = saved[1];
    const double softcap = context->saved_data["softcap"].toDouble();
    const VocabularyChunks chunks({hidden, weight, saved[2], {}, softcap},
                                  context->saved_data["chunk"].toInt(),
                                  static_cast<at::ScalarType>(context->saved_data["type"].toInt()));
    at::Tensor by_hidden = at::empty_like(hidden);
    at::Tensor by_weight = context->needs_input_grad(1) ? at::zeros_like(weight) : at::Tensor();
    chunks.each(
        [&](int64_t start, const at::Tensor& part, const at::Tensor& wanted, at::Tensor& scores) {
          const at::Tensor by_target = by_out[0].narrow(0, start, part.size(0));
          const at::Tensor by_logits = chunks.logit_gradient_of(by_target, wanted, scores);
          by_hidden.narrow(0, start, part.size(0)).copy_(by_logits.mm(chunks.weight()));
          if (by_weight.defined()) add_weight_gradient(by_weight, by_logits, part);
        });
    return {by_hidden, by_weight, {}, {}};
  }
};

}  // namespace

int64_t tokens_per_chunk(int64_t rows, at::Device device) {
  constexpr int64_t kOnCpu = int64_t{64} << 20, kOnGpu = int64_t{1} << 30;  // bytes of logits
  const int64_t bytes = device.is_cuda() ? kOnGpu : kOnCpu;
  return std::max<int64_t>(bytes / (rows * static_cast<int64_t>(sizeof(float))), 1);
}

at::Tensor chunked_log_probs(const VocabularyHead& head, int64_t chunk) {
  return ChunkedLogProbs::apply(head.hidden, head.weight, head.targets,
                                VocabularyChunking{{}, {}, chunk, head.softcap});
}

at::Tensor chunked_cross_entropy(const VocabularyHead& head, int64_t chunk) {
  return ChunkedCrossEntropy::apply(
      head.hidden, head.weight, head.bias.defined() ? std::optional(head.bias) : std::nullopt,
      VocabularyChunking{head.targets, head.vocabulary, chunk, head.softcap});
}

ScoredTokens score_by_chunks(const VocabularyHead& head, int64_t chunk) {
  const at::NoGradGuard no_grad;
  const VocabularyChunks chunks(head, chunk);
  at::Tensor predicted = at::empty_like(head.targets);
  at::Tensor loss = chunks.each(
      [&](int64_t start, const at::Tensor& part, const at::Tensor&, const at::Tensor& scores) {
        predicted.narrow(0, start, part.size(0)).copy_(chunks.argmax(scores));
      });
  return {loss, predicted};
}

at::Tensor sample_labels_by_chunks(const VocabularyHead& head, const at::Tensor& uniform,
                                   int64_t chunk) {
  const at::NoGradGuard no_grad;
  const VocabularyChunks chunks(head, chunk);
  at::Tensor labels = at::empty_like(head.targets);
  chunks.each([&](int64_t start, const at::Tensor& part, const at::Tensor& targets,
                  const at::Tensor& scores) {
    const int64_t length = part.size(0);
    const at::Tensor numbers = uniform.narrow(0, start, length);
    labels.narrow(0, start, length).copy_(sample_labels(scores, targets, numbers));
  });
  return labels;
}

}  // namespace accel
