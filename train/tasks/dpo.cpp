// Direct preference optimization (Rafailov et al., 2023) and its variants.
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include <string>

#include "core/api/targets.h"
#include "core/recipe/registry.h"
#include "train/tasks/completion_scores.h"
#include "train/tasks/dpo_losses.h"
#include "train/tasks/frozen_model.h"
#include "train/tasks/model_needs.h"
#include "train/tasks/preference_task.h"
#include "train/tasks/reference_model.h"

namespace accel {

template <>
struct EnumNames<DpoLoss> {
  static constexpr std::pair<DpoLoss, const char*> kValues[] = {
      {DpoLoss::kSigmoid, "sigmoid"},    {DpoLoss::kSigmoidNorm, "sigmoid_norm"},
      {DpoLoss::kHinge, "hinge"},        {DpoLoss::kIpo, "ipo"},
      {DpoLoss::kRobust, "robust"},      {DpoLoss::kExoPair, "exo_pair"},
      {DpoLoss::kNcaPair, "nca_pair"},   {DpoLoss::kBcoPair, "bco_pair"},
      {DpoLoss::kSppoHard, "sppo_hard"}, {DpoLoss::kApoZero, "apo_zero"},
      {DpoLoss::kApoDown, "apo_down"}};
};

namespace {

struct DpoOptions : DpoLossOptions {
  Auto<Ref<Model>> reference;
  double sft_weight = 0;
  bool dropout = false;
  bool precompute_ref_log_probs = false;
};

void check_options(const DpoOptions& options, const Node& node, Reading& reading) {
  const double smoothing = options.label_smoothing;
  const auto at = [&](const char* key) {
    const Node::Entry* entry = node.find(key);
    return entry ? entry->node.where : node.where;
  };
  if (smoothing > 0 && !has_label_smoothing(options.type)) {
    reading.problems.error(at("label_smoothing"),
                           "'label_smoothing' does not change this 'loss_type'",
                           "leave it out, or use sigmoid, robust or exo_pair");
  }
  if (smoothing == 0 && options.type == DpoLoss::kExoPair) {
    reading.problems.error(at("loss_type"), "'exo_pair' needs a 'label_smoothing' above 0",
                           "add 'label_smoothing: 1e-3'");
  }
  if (options.reference) want_trained_weights(*options.reference, "reference", node, reading);
}

class Dpo final : public PreferenceTask,
                  public AdapterReference,
                  public WholeSequences,
                  public PrecomputesReference {
 public:
  static constexpr auto kName = "dpo";
  static constexpr auto kSummary =
      "Direct preference optimization: a language model learns to prefer chosen answers to "
      "rejected "
      "ones, relative to a frozen reference.";

  static Schema<DpoOptions> schema();

  Dpo(const DpoOptions& options, const TaskContext& context)
      : PreferenceTask(kName, context, options.dropout),
        options_(options),
        reference_(options.reference, context, options.precompute_ref_log_probs) {}

  std::vector<TaskModel> models() override { return reference_.models(); }
  bool uses_adapter_reference() const override { return reference_.is_adapter_off(); }

  bool precomputes_reference() const override { return reference_.precomputes(); }
  Model* reference_model() override { return reference_.model(); }
  at::Tensor reference_rows(Model& trained, const Batch& batch) override {
    const at::Tensor scores = reference_.log_probs(kName, trained, pair_rows(batch));
    return at::stack(scores.chunk(kPairSize), 1);
  }
  void set_reference(ReferenceScores train, ReferenceScores eval) override {
    reference_.set(std::move(train), std::move(eval));
  }
  double step(StepContext& context) override {
    reference_.use_eval(false);
    return PreferenceTask::step(context);
  }
  Evaluation evaluate(Model& model, const Batch& batch) override {
    reference_.use_eval(true);
    return PreferenceTask::evaluate(model, batch);
  }

 protected:
  ScoredPairs score(Model& model, const Batch& batch, const TokenMean& mean) override {
    const Batch rows = pair_rows(batch);
    const at::Tensor before = reference_.is_read()
                                  ? at::cat(reference_.rows_of(batch, kPairSize).unbind(1))
                                  : reference_.log_probs(kName, model, rows);
    const CompletionScores now = score_completions(kName, model, rows);
    const auto policy = now.log_probs.chunk(2), ratio = now.log_probs.sub(before).chunk(2);
    const auto tokens = now.tokens.chunk(2);
    const PairRatios ratios = {ratio[0], ratio[1], tokens[0], tokens[1]};
    at::Tensor loss = dpo_losses(ratios, options_).mean();
    if (options_.sft_weight > 0) {
      loss = loss.sub(mean.of(policy[0].sum()).mul(options_.sft_weight));
    }
    const at::Tensor columns = at::stack(
        {ratio[0].mul(options_.beta), ratio[1].mul(options_.beta), policy[0], policy[1]}, 1);
    return {loss, columns.detach()};
  }
  bool has_cross_entropy() const override { return options_.sft_weight > 0; }
  double tokens(const Batch& batch) const override { return chosen_tokens(batch); }

 private:
  DpoOptions options_;
  ReferenceModel reference_;
};

Schema<DpoOptions> Dpo::schema() {
  return Schema<DpoOptions>()
      .field("reference", &DpoOptions::reference, kReferenceHelp)
      .hint_for({"ref_model", "reference_model"})
      .field("loss_type", static_cast<DpoLoss DpoOptions::*>(&DpoOptions::type),
             "sigmoid is DPO's own. ipo is less prone to overfitting of clear preferences, robust "
             "to labels of which some are wrong; sigmoid_norm and ipo compare means over tokens "
             "instead of sums.")
      .field("beta", static_cast<double DpoOptions::*>(&DpoOptions::beta),
             "Strength of the pull to the reference; lower values let the model move further from "
             "it.",
             more_than(0.0))
      .field("label_smoothing", static_cast<double DpoOptions::*>(&DpoOptions::label_smoothing),
             "Assumed share of pairs with swapped labels, for sigmoid, robust and exo_pair.",
             within(0.0, 0.5))
      .field("sft_weight", &DpoOptions::sft_weight,
             "Weight of the cross-entropy on chosen answers added to the loss (RPO), which keeps "
             "their probability from falling.",
             at_least(0.0))
      .hint_for({"rpo_alpha", "pref_ftx"})
      .field("dropout", &DpoOptions::dropout, kDropoutHelp)
      .hint_for({"disable_dropout"}, "true>false|false>true|{}")
      .field("precompute_ref_log_probs", &DpoOptions::precompute_ref_log_probs, kPrecomputeHelp)
      .check(&check_options);
}

const Register<Dpo> dpo;

}  // namespace
}  // namespace accel
