// Causal language modeling: cross-entropy on the next token.
#include <algorithm>
#include <string>

#include "core/api/model.h"
#include "core/api/packed_sequences.h"
#include "core/api/targets.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"
#include "kernels/cross_entropy.h"
#include "kernels/cuda_vocabulary_loss.h"
#include "models/layers/embedding_noise.h"
#include "models/layers/logit_softcap.h"
#include "models/layers/sampled_labels.h"
#include "models/layers/token_logits.h"
#include "train/tasks/chunked_cross_entropy.h"
#include "train/tasks/divided_sequences.h"
#include "train/tasks/model_needs.h"
#include "train/tasks/token_scores.h"

namespace accel {
namespace {

struct CausalLmOptions {
  Auto<int64_t> chunk;
  double neftune_noise_alpha = 0;
};

/// LanguageModel::hidden() of the batch, with a block-diagonal mask where `packed`.
at::Tensor hidden_of(LanguageModel& model, const Batch& batch, bool packed) {
  if (!packed || !batch.segments.defined()) return model.hidden(batch.inputs);
  auto* keeper = dynamic_cast<PackedSequences*>(&model);
  if (keeper) return keeper->forward_packed(batch.inputs, batch.segments);
  throw Error(ExitCode::kRecipe, "the model does not support packed sequences",
              "leave out 'pack' of the data, or use a model such as 'gpt' or 'llama'");
}

/// Null for one process.
const TensorRanks* tensor_ranks(const Model& model) {
  const auto* divided = dynamic_cast<const TensorParallel*>(&model);
  return divided ? divided->vocabulary().ranks : nullptr;
}

/// The logits, [tokens, vocab].
at::Tensor token_scores(Model& model, const Batch& batch) {
  const at::Tensor scores = model.forward_batch(batch);
  const at::IntArrayRef wanted = batch.targets.sizes();
  if (scores.dim() != batch.targets.dim() + 1 || scores.sizes().slice(0, wanted.size()) != wanted) {
    throw Error(ExitCode::kRecipe,
                "the task 'causal_lm' needs logits of the next token at each position, but the "
                "model's output is " +
                    shape_text(scores) + " and the targets are " + shape_text(batch.targets),
                "'gpt' is a language model");
  }
  return scores.to(at::kFloat).flatten(0, -2);
}

class CausalLm final : public Task,
                       public DividedSequences,
                       public HasFixedPasses,
                       public AddsEmbeddingNoise,
                       public SamplesLabels {
 public:
  static constexpr auto kName = "causal_lm";
  static constexpr const char* kHintFor[] = {"clm", "language_modeling", "text-generation"};
  static constexpr auto kSummary = "Cross-entropy on the next token.";

  static Schema<CausalLmOptions> schema() {
    return Schema<CausalLmOptions>()
        .field("chunk", &CausalLmOptions::chunk,
               "Tokens whose logits are in memory at a time; auto: as many as fit in 64 MiB, or in "
               "1 GiB on a GPU. Fewer tokens take less memory.",
               if_given<Auto>(at_least<int64_t>(1)))
        .field("neftune_noise_alpha", &CausalLmOptions::neftune_noise_alpha,
               "Scale of uniform noise on the embeddings of tokens in updates (NEFTune), which "
               "helps fine-tuning on few conversations. 5 is usual; 0: none.",
               at_least(0.0))
        .hint_for({"neftune", "neftune_alpha", "noisy_embedding_alpha"});
  }

  CausalLm(const CausalLmOptions& options, const TaskContext& context)
      : options_(options), packed_(is_packed(context.data)) {
    const DataShape& data = context.data;
    if (!data.input.empty() && (data.vocab == 0 || data.target_type != DType::kI64)) {
      throw Error(ExitCode::kRecipe,
                  std::string("the task 'causal_lm' wants tokens, but a sample of the data is ") +
                      name_of(data.input_type) + " " + to_string(data.input));
    }
    if (data.target == data.input && data.classes == 0) return;
    throw Error(ExitCode::kRecipe,
                std::string("the task 'causal_lm' needs the next token as target at each position, "
                            "but the targets of the data are ") +
                    (data.classes > 0 ? std::to_string(data.classes) + " classes " : "") +
                    name_of(data.target_type) + " " + to_string(data.target),
                "leave out 'target' of the data, or use a model such as 'bert'");
  }

  double weight(const Batch& batch) const override { return counted_targets(batch); }

  at::Tensor loss(Model& model, const Batch& batch) override {
    return divided_loss(model, batch, of_positions(model));
  }

  double step(StepContext& context) override {
    return context.sole_update([&](const Batch& batch) {
      if (!adds_embedding_noise()) return loss(context.model(), batch);
      const EmbeddingNoise noise(options_.neftune_noise_alpha, context.step(), batch.ids);
      at::Tensor mean = loss(context.model(), batch);
      if (noise.is_applied()) return mean;
      throw Error(ExitCode::kRecipe,
                  "'neftune_noise_alpha' of the task 'causal_lm' is not supported by this model, "
                  "whose embeddings it does not reach",
                  "leave it out, or use a model such as 'gpt' or 'llama'");
    });
  }
  at::Tensor sampled_loss(Model& model, const Batch& batch,
                          const LabelDraws& draws) const override {
    if (weight(batch) == 0) return mean_loss(model, batch);
    LanguageModel* language = in_chunks(model);
    const int64_t chunk = chunk_for(language, batch);
    const at::Tensor targets = batch.targets.flatten();
    const at::Tensor uniform = draws.uniform(targets.numel() / batch.size(), targets);
    if (makes_all_logits(model, batch, chunk)) {
      const at::Tensor logits = all_logits(model, batch);
      return cross_entropy(logits, sample_labels(logits, targets, uniform), kIgnoredTarget);
    }
    VocabularyHead head = head_of(*language, batch);
    head.targets = sample_labels_by_chunks(head, uniform, chunk);
    return chunked_cross_entropy(head, chunk);
  }

  bool has_fixed_passes() const override { return !adds_embedding_noise(); }
  bool adds_embedding_noise() const override { return options_.neftune_noise_alpha > 0; }

  /// The output is the likeliest token at each position, int64 [batch, context].
  Evaluation evaluate(Model& model, const Batch& batch) override {
    return divided_evaluation(model, batch, of_positions(model));
  }

  std::vector<std::string> metrics() const override {
    return {"perplexity", "accuracy", "exact_match"};
  }
  std::vector<std::string> default_metrics() const override { return {"perplexity"}; }

 private:
  PositionLoss of_positions(Model& model) const {
    return {[this](const Batch& own) { return weight(own); },
            [this, &model](const Batch& own) { return mean_loss(model, own); },
            [this, &model](const Batch& own) { return scored(model, own); }};
  }

  /// Of the positions that the model returns, whose targets the batch has.
  Evaluation scored(Model& model, const Batch& batch) const {
    LanguageModel* language = in_chunks(model);
    const int64_t chunk = chunk_for(language, batch);
    Evaluation result;
    if (makes_all_logits(model, batch, chunk)) {
      result = whole(model, batch);
      result.output = result.output.argmax(1).view_as(batch.targets);
    } else {
      const ScoredTokens scored = score_by_chunks(head_of(*language, batch), chunk);
      result = {scored.loss, scored.predicted.view_as(batch.targets)};
    }
    if (weight(batch) == 0) result.loss.zero_();
    return result;
  }

  /// The mean over the targets at the positions that the model returns.
  at::Tensor mean_loss(Model& model, const Batch& batch) const {
    LanguageModel* language = in_chunks(model);
    // Of no tokens too.
    if (has_fused_loss(language, batch)) {
      return chunked_cross_entropy(head_of(*language, batch), chunk_for(language, batch));
    }
    // The mean over no tokens is NaN, which must not reach the weights.
    if (weight(batch) == 0) {
      const at::Tensor any =
          language ? hidden_of(*language, batch, packed_) : token_scores(model, batch);
      return any.to(at::kFloat).sum().mul(0);
    }
    const int64_t chunk = chunk_for(language, batch);
    if (makes_all_logits(model, batch, chunk)) return whole(model, batch).loss;
    return chunked_cross_entropy(head_of(*language, batch), chunk);
  }

  /// Null for a model that only returns complete logits.
  LanguageModel* in_chunks(Model& model) const {
    auto* language = dynamic_cast<LanguageModel*>(&model);
    if (!language && options_.chunk) {
      throw Error(ExitCode::kRecipe,
                  "'chunk' of the task 'causal_lm' is not supported by this model, which has no "
                  "separate output layer",
                  "leave 'chunk' out");
    }
    return language;
  }

  int64_t chunk_for(LanguageModel* model, const Batch& batch) const {
    if (!model) return batch.targets.numel();
    if (options_.chunk) return *options_.chunk;
    return std::min(tokens_per_chunk(head_rows(*model), batch.targets.device()),
                    batch.targets.numel());
  }

  /// Ranks that divide the vocabulary have no whole logits.
  static bool makes_all_logits(const Model& model, const Batch& batch, int64_t chunk) {
    return chunk >= batch.targets.numel() && !tensor_ranks(model);
  }

  /// Whether the loss and its gradients are those of one kernel, for any number of tokens.
  static bool has_fused_loss(LanguageModel* model, const Batch& batch) {
    return model && logit_softcap(*model) == 0 && has_cuda_vocabulary_loss(batch.targets.device());
  }

  VocabularyHead head_of(LanguageModel& model, const Batch& batch) const {
    const auto* divided = dynamic_cast<const TensorParallel*>(&model);
    return {hidden_of(model, batch, packed_).flatten(0, 1), model.head_weight(),
            batch.targets.flatten(), divided ? divided->vocabulary() : DividedVocabulary(),
            logit_softcap(model)};
  }

  /// [tokens, vocab]
  at::Tensor all_logits(Model& model, const Batch& batch) const {
    auto* language = packed_ ? dynamic_cast<LanguageModel*>(&model) : nullptr;
    if (!language) return token_scores(model, batch);
    return token_logits(*language, hidden_of(*language, batch, packed_))
        .to(at::kFloat)
        .flatten(0, -2);
  }

  /// The loss and the logits [tokens, vocab].
  Evaluation whole(Model& model, const Batch& batch) const {
    const at::Tensor logits = all_logits(model, batch);
    return {cross_entropy(logits, batch.targets.flatten(), kIgnoredTarget), logits};
  }

  CausalLmOptions options_;
  bool packed_;  ///< samples are packed sequences
};

const Register<CausalLm> causal_lm;

}  // namespace
}  // namespace accel
