// Masked language modeling: cross-entropy on masked tokens.
#include <ATen/ops/linear.h>

#include <string>
#include <utility>

#include "core/api/targets.h"
#include "core/api/task.h"
#include "core/api/token_head.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"
#include "kernels/choice.h"
#include "kernels/cross_entropy.h"
#include "train/tasks/chunked_cross_entropy.h"
#include "train/tasks/divided_sequences.h"
#include "train/tasks/token_scores.h"

namespace accel {
namespace {

struct MaskedLmOptions {};

class MaskedLm final : public Task, public DividedSequences, public SamplesLabels {
 public:
  static constexpr auto kName = "masked_lm";
  static constexpr const char* kHintFor[] = {"mlm", "fill-mask"};
  static constexpr auto kSummary = "Cross-entropy on tokens masked by the transform 'mask_tokens'.";

  static Schema<MaskedLmOptions> schema() { return Schema<MaskedLmOptions>(); }

  MaskedLm(const MaskedLmOptions&, const TaskContext& context) {
    const DataShape& data = context.data;
    if (data.input.empty()) return;
    if (data.vocab == 0 || data.target != data.input || data.target_type != DType::kI64) {
      throw Error(ExitCode::kRecipe,
                  std::string("the task 'masked_lm' needs a target token at each position, but the "
                              "data's input is ") +
                      name_of(data.input_type) + " " + to_string(data.input) + " and the target " +
                      name_of(data.target_type) + " " + to_string(data.target),
                  "add the transform 'mask_tokens' to data of tokens");
    }
  }

  double weight(const Batch& batch) const override { return counted_targets(batch); }

  at::Tensor loss(Model& model, const Batch& batch) override {
    return divided_loss(model, batch, of_positions(model));
  }

  /// The output is the likeliest token at each position, int64 [batch, length].
  Evaluation evaluate(Model& model, const Batch& batch) override {
    return divided_evaluation(model, batch, of_positions(model));
  }

  at::Tensor sampled_loss(Model& model, const Batch& batch,
                          const LabelDraws& draws) const override {
    auto* head = dynamic_cast<TokenHead*>(&model);
    if (!head || !head->has_token_head() || !selects_masked(batch)) {
      return sampled_token_loss(kName, model, kModelHint, batch, draws);
    }
    const MaskedTokens tokens = masked_tokens(*head, batch);
    if (tokens.targets.size(0) == 0) return tokens.logits.sum();
    const at::Tensor uniform = draws.uniform(batch.targets.size(1), tokens.logits);
    return cross_entropy(
        tokens.logits,
        sample_labels(tokens.logits, tokens.targets, uniform.index_select(0, tokens.positions)),
        kIgnoredTarget);
  }

  std::vector<std::string> metrics() const override { return {"perplexity", "accuracy"}; }
  std::vector<std::string> default_metrics() const override { return {"perplexity"}; }

 private:
  static constexpr auto kModelHint = "choose a model with a head for masked tokens";

  static DividedVocabulary divided_vocabulary(const Model& model) {
    const auto* divided = dynamic_cast<const TensorParallel*>(&model);
    return divided ? divided->vocabulary() : DividedVocabulary();
  }

  /// Ranks that divide the vocabulary have no whole logits.
  static PositionLoss by_rows(TokenHead& model, const DividedVocabulary& vocabulary) {
    const auto head = [&model, vocabulary](const Batch& batch) {
      return VocabularyHead{.hidden = model.token_features(batch).flatten(0, 1),
                            .weight = model.token_weight(),
                            .targets = batch.targets.flatten(),
                            .vocabulary = vocabulary,
                            .bias = model.token_bias()};
    };
    const auto chunk = [](const VocabularyHead& of) {
      return tokens_per_chunk(of.weight.size(0), of.weight.device());
    };
    return {&counted_targets,
            [head, chunk](const Batch& batch) {
              const VocabularyHead all = head(batch);
              if (counted_targets(batch) == 0) return all.hidden.to(at::kFloat).sum().mul(0);
              return chunked_cross_entropy(all, chunk(all));
            },
            [head, chunk](const Batch& batch) {
              const VocabularyHead all = head(batch);
              const ScoredTokens scored = score_by_chunks(all, chunk(all));
              if (counted_targets(batch) == 0) scored.loss.zero_();
              return Evaluation{scored.loss, scored.predicted.view_as(batch.targets)};
            }};
  }

  struct MaskedTokens {
    at::Tensor positions;  ///< in the flattened batch
    at::Tensor targets;
    at::Tensor logits;  ///< F32 [positions, vocab]
  };

  /// Other tokens have no logits.
  static MaskedTokens masked_tokens(TokenHead& model, const Batch& batch) {
    const at::Tensor targets = batch.targets.flatten();
    const at::Tensor masked = targets.ne(kIgnoredTarget).nonzero().squeeze(1);
    const at::Tensor hidden = model.token_features(batch).flatten(0, 1).index_select(0, masked);
    return {masked, targets.index_select(0, masked),
            at::linear(hidden, model.token_weight(), model.token_bias()).to(at::kFloat)};
  }

  /// The mean over masked tokens.
  static at::Tensor loss_of_masked(TokenHead& model, const Batch& batch) {
    const MaskedTokens tokens = masked_tokens(model, batch);
    if (tokens.targets.size(0) == 0) return tokens.logits.sum();  // 0, with gradients of 0
    return cross_entropy(tokens.logits, tokens.targets, kIgnoredTarget);
  }

  /// On a GPU the number of masked tokens would make the host wait.
  static bool selects_masked(const Batch& batch) {
    return batch.targets.is_cpu() && kernels() == Kernels::kFused;
  }

  static PositionLoss of_positions(Model& model) {
    PositionLoss whole = token_loss(kName, model, kModelHint);
    auto* head = dynamic_cast<TokenHead*>(&model);
    if (!head || !head->has_token_head()) return whole;
    const DividedVocabulary vocabulary = divided_vocabulary(model);
    if (vocabulary.ranks) return by_rows(*head, vocabulary);
    whole.mean = [head, all = std::move(whole.mean)](const Batch& batch) {
      return selects_masked(batch) ? loss_of_masked(*head, batch) : all(batch);
    };
    return whole;
  }
};

const Register<MaskedLm> masked_lm;

}  // namespace
}  // namespace accel
