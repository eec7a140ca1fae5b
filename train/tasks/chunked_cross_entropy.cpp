#include "train/tasks/chunked_cross_entropy.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "core/api/targets.h"

namespace accel {
namespace {

/// The type of matrix products of `x` under autocast.
at::ScalarType product_type(const at::Tensor& x) {
  const auto device = x.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device)
                                                   : x.scalar_type();
}

/// Iterates over the tokens in chunks. Autocast is off inside: its cache would keep a copy of the
/// weight without gradient.
class VocabularyChunks {
 public:
  VocabularyChunks(const VocabularyHead& head, int64_t chunk)
      : type_(product_type(head.hidden)),
        hidden_(head.hidden.to(type_)),
        weight_(head.weight.to(type_)),
        targets_(head.targets),
        count_(head.targets.ne(kIgnoredTarget).sum().to(at::kFloat)),
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
      at::Tensor scores = at::log_softmax(at::linear(hidden, weight_).to(at::kFloat), /*dim=*/1);
      total.add_(at::nll_loss(scores, targets, {}, at::Reduction::Sum, kIgnoredTarget));
      visit(start, hidden, targets, scores);
    }
    return total.to(at::kFloat).div(count_);
  }

  /// Converts log-probabilities to the gradient of the mean loss with respect to the logits, in
  /// place.
  at::Tensor logit_gradient(const at::Tensor& targets, at::Tensor& scores) const {
    const at::Tensor counts = targets.ne(kIgnoredTarget);
    const at::Tensor index = targets.masked_fill(counts.logical_not(), 0).unsqueeze(1);
    scores.exp_().scatter_add_(1, index, at::full_like(index, -1, scores.options()));
    return scores.mul_(counts.to(at::kFloat).div(count_).unsqueeze(1)).to(type_);
  }

  const at::Tensor& weight() const { return weight_; }

 private:
  at::ScalarType type_;  // read before autocast is turned off
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
  at::Tensor hidden_, weight_, targets_;
  at::Tensor count_;
  int64_t chunk_;
};

class ChunkedCrossEntropy final : public torch::autograd::Function<ChunkedCrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& weight, const at::Tensor& targets, int64_t chunk) {
    const VocabularyChunks chunks({hidden, weight, targets}, chunk);
    at::Tensor by_hidden = at::empty_like(hidden);
    at::Tensor by_weight = at::zeros_like(weight);
    at::Tensor loss = chunks.each(
        [&](int64_t start, const at::Tensor& part, const at::Tensor& wanted, at::Tensor& scores) {
          const at::Tensor by_logits = chunks.logit_gradient(wanted, scores);
          by_hidden.narrow(0, start, part.size(0)).copy_(by_logits.mm(chunks.weight()));
          if (by_logits.scalar_type() == by_weight.scalar_type()) {
            by_weight.addmm_(by_logits.t(), part);
          } else {
            by_weight.add_(by_logits.t().mm(part));
          }
        });
    context->save_for_backward({by_hidden, by_weight});
    return loss;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& by_loss) {
    const auto saved = context->get_saved_variables();
    return {saved[0].mul(by_loss[0]), saved[1].mul(by_loss[0]), {}, {}};
  }
};

}  // namespace

at::Tensor chunked_cross_entropy(const VocabularyHead& head, int64_t chunk) {
  return ChunkedCrossEntropy::apply(head.hidden, head.weight, head.targets, chunk);
}

ScoredTokens score_by_chunks(const VocabularyHead& head, int64_t chunk) {
  const at::NoGradGuard no_grad;
  const VocabularyChunks chunks(head, chunk);
  at::Tensor predicted = at::empty_like(head.targets);
  at::Tensor loss = chunks.each(
      [&](int64_t start, const at::Tensor& part, const at::Tensor&, const at::Tensor& scores) {
        predicted.narrow(0, start, part.size(0)).copy_(scores.argmax(1));
      });
  return {loss, predicted};
}

}  // namespace accel
