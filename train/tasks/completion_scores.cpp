#include "train/tasks/completion_scores.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <string>

#include "core/api/auxiliary_loss.h"
#include "core/api/sequence_pairs.h"
#include "core/api/targets.h"
#include "core/base/error.h"
#include "kernels/choice.h"
#include "models/layers/logit_softcap.h"
#include "train/tasks/chunked_cross_entropy.h"

namespace accel {
namespace {

/// The logits at `index` from the model's output, F32, for models without a separate head.
at::Tensor logits_of_output(const char* task, Model& model, const Batch& rows,
                            const at::Tensor& index) {
  const at::Tensor scores = model.forward_batch(rows);
  const bool fits = scores.dim() == 3 && scores.sizes().slice(0, 2) == rows.inputs.sizes();
  if (!fits) {
    throw Error(
        ExitCode::kRecipe,
        std::string("the task '") + task +
            "' needs logits of the next token at each position, but the model's output is " +
            shape_text(scores) + " for tokens " + shape_text(rows.inputs),
        "'gpt' and 'llama' are language models");
  }
  return scores.flatten(0, 1).index_select(0, index).to(at::kFloat);
}

/// Indices in the flat targets; all of them without data.
at::Tensor places_of_targets(const at::Tensor& targets) {
  if (has_shapes_only()) return at::arange(targets.numel(), targets.options());
  return targets.ne(kIgnoredTarget).flatten().nonzero().squeeze(1);
}

/// Of tensors without data, half of a batch's length.
int64_t longest_of(const at::Tensor& lengths, const Batch& pairs) {
  return has_shapes_only() ? pairs.inputs.size(1) / kPairSize : lengths.max().item<int64_t>();
}

}  // namespace

Batch pair_rows(const Batch& pairs) {
  const at::Tensor second = pairs.segments.sum(1);  // padding has the segment 0
  const at::Tensor first = pairs.lengths.sub(second);
  const at::Tensor lengths = at::cat({first, second});
  const int64_t longest = longest_of(lengths, pairs);
  const at::Tensor places = at::arange(longest, lengths.options()).unsqueeze(0);
  const at::Tensor begin = at::cat({at::zeros_like(first), first}).unsqueeze(1);
  const at::Tensor is_padding = places.ge(lengths.unsqueeze(1));
  const at::Tensor from = begin.add(places).clamp_max(pairs.inputs.size(1) - 1);
  const auto rows_of = [&](const at::Tensor& tokens, int64_t fill) {
    return at::cat({tokens, tokens}).gather(1, from).masked_fill(is_padding, fill);
  };
  Batch rows;
  rows.inputs = rows_of(pairs.inputs, 0);
  rows.targets = rows_of(pairs.targets, kIgnoredTarget);
  rows.lengths = lengths;
  rows.ids = pairs.ids;
  rows.ids.insert(rows.ids.end(), pairs.ids.begin(), pairs.ids.end());
  return rows;
}

double chosen_tokens(const Batch& pairs) {
  const at::Tensor targets = pair_rows(pairs).targets.narrow(0, 0, pairs.size());
  return targets.ne(kIgnoredTarget).sum().item<double>();
}

at::Tensor target_log_probs(const char* task, Model& model, const Batch& rows, double temperature) {
  const auto tempered = [&](const at::Tensor& logits) {
    return temperature == 1 ? logits : logits.div(temperature);
  };
  if (auto* balanced = dynamic_cast<AuxiliaryLoss*>(&model);
      balanced && c10::GradMode::is_enabled()) {
    balanced->begin_batch(rows);
  }
  const at::Tensor index = places_of_targets(rows.targets);
  const at::Tensor targets = rows.targets.flatten().index_select(0, index);
  at::Tensor scores;
  if (auto* language = dynamic_cast<LanguageModel*>(&model)) {
    const at::Tensor hidden = language->hidden(rows.inputs).flatten(0, 1).index_select(0, index);
    const at::Tensor weight = language->head_weight();
    const double softcap = logit_softcap(*language) / temperature;
    scores = chunked_log_probs({tempered(hidden), weight, targets, {}, softcap},
                               tokens_per_chunk(weight.size(0), weight.device()));
  } else {
    const at::Tensor logits = tempered(logits_of_output(task, model, rows, index));
    scores = at::log_softmax(logits, 1).gather(1, targets.unsqueeze(1)).squeeze(1);
  }
  return at::zeros({rows.targets.numel()}, scores.options())
      .scatter(0, index, scores)
      .view(rows.targets.sizes());
}

CompletionScores score_completions(const char* task, Model& model, const Batch& rows) {
  return {target_log_probs(task, model, rows).sum(1), rows.targets.ne(kIgnoredTarget).sum(1)};
}

}  // namespace accel
