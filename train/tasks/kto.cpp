// Kahneman-Tversky optimization (Ethayarajh et al., 2024) of answers with a label.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <optional>
#include <string>
#include <vector>

#include "core/api/sequence_pairs.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"
#include "models/layers/dropout_off.h"
#include "train/tasks/completion_scores.h"
#include "train/tasks/frozen_model.h"
#include "train/tasks/mismatched_answers.h"
#include "train/tasks/model_needs.h"
#include "train/tasks/preference_task.h"
#include "train/tasks/reference_model.h"

namespace accel {
namespace {

enum class KtoLoss { kKto, kApoZeroUnpaired };

}  // namespace

template <>
struct EnumNames<KtoLoss> {
  static constexpr std::pair<KtoLoss, const char*> kValues[] = {
      {KtoLoss::kKto, "kto"}, {KtoLoss::kApoZeroUnpaired, "apo_zero_unpaired"}};
};

namespace {

struct KtoOptions {
  Auto<Ref<Model>> reference;
  KtoLoss loss_type = KtoLoss::kKto;
  double beta = 0.1;
  double desirable_weight = 1;
  double undesirable_weight = 1;
  bool dropout = false;
  bool precompute_ref_log_probs = false;
};

/// Loss and output of a batch, as LabelledColumn.
struct ScoredAnswers {
  at::Tensor loss;  ///< the mean over samples, 0-d
  at::Tensor rows;  ///< [samples, kLabelledColumns] F32, detached
};

class Kto final : public Task,
                  public AdapterReference,
                  public WholeSequences,
                  public ComparesSamples,
                  public PrecomputesReference {
 public:
  static constexpr auto kName = "kto";
  static constexpr auto kSummary =
      "Kahneman-Tversky optimization: a language model learns from answers that are desirable or "
      "not, relative to a frozen reference; needs no pairs.";

  static Schema<KtoOptions> schema();

  Kto(const KtoOptions& options, const TaskContext& context)
      : options_(options),
        max_length_(context.data.input.empty() ? 0 : context.data.input[0]),
        reference_(options.reference, context, options.precompute_ref_log_probs) {
    const DataShape& data = context.data;
    if (!has_labelled_sequences(data) || data.vocab == 0) {
      throw Error(ExitCode::kRecipe,
                  "the task 'kto' needs answers with a label, but a sample of the data is " +
                      std::string(name_of(data.input_type)) + " " + to_string(data.input) +
                      " with targets " + to_string(data.target),
                  "use the dataset 'unpaired'");
    }
  }

  std::vector<TaskModel> models() override { return reference_.models(); }
  bool uses_adapter_reference() const override { return reference_.is_adapter_off(); }

  bool precomputes_reference() const override { return reference_.precomputes(); }
  bool mismatches_answers() const override { return compares_samples(); }
  Model* reference_model() override { return reference_.model(); }
  at::Tensor reference_rows(Model& trained, const Batch& batch) override {
    return reference_.log_probs(kName, trained, answers_of(batch)).unsqueeze(1);
  }
  void add_mismatched(Model& trained, const Batch& batch, ReferenceScores& scores) override;
  void set_reference(ReferenceScores train, ReferenceScores eval) override {
    reference_.set(std::move(train), std::move(eval));
  }

  bool compares_samples() const override { return options_.loss_type == KtoLoss::kKto; }

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }
  at::Tensor loss(Model& model, const Batch& batch) override { return score(model, batch).loss; }
  Evaluation evaluate(Model& model, const Batch& batch) override {
    reference_.use_eval(true);
    const ScoredAnswers scored = score(model, batch);
    return {scored.loss, scored.rows};
  }
  double step(StepContext& context) override;

  std::vector<std::string> metrics() const override { return {"unpaired_rewards"}; }
  std::vector<std::string> default_metrics() const override { return metrics(); }

 private:
  /// Without the labels.
  static Batch answers_of(const Batch& batch) {
    Batch rows = batch;
    rows.segments = at::Tensor();
    return rows;
  }
  ScoredAnswers score(Model& model, const Batch& batch);
  at::Tensor losses(const at::Tensor& ratio, const at::Tensor& kl,
                    const at::Tensor& desirable) const;
  at::Tensor log_probs(Model& model, const Batch& rows) const {
    return score_completions(kName, model, rows).log_probs;
  }
  /// The divergence from the reference, estimated from answers to other prompts: 0-d, at least 0.
  at::Tensor estimated_kl(Model& model, const Batch& batch);

  KtoOptions options_;
  int64_t max_length_;
  ReferenceModel reference_;
};

at::Tensor Kto::estimated_kl(Model& model, const Batch& batch) {
  const at::NoGradGuard no_grad;
  const Batch others = mismatched_answers(batch, max_length_);
  const at::Tensor before = reference_.is_read() ? reference_.mismatched_of(batch)
                                                 : reference_.log_probs(kName, model, others);
  return log_probs(model, others).sub(before).mean().clamp_min(0);
}

void Kto::add_mismatched(Model& trained, const Batch& batch, ReferenceScores& scores) {
  const Batch others = mismatched_answers(answers_of(batch), max_length_);
  const at::Tensor found = reference_.log_probs(kName, trained, others).to(at::kCPU, at::kFloat);
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const int64_t answer = batch.ids[i == 0 ? batch.ids.size() - 1 : i - 1];
    scores.mismatched[{batch.ids[i], answer}] = found[static_cast<int64_t>(i)].item<float>();
  }
}

at::Tensor Kto::losses(const at::Tensor& ratio, const at::Tensor& kl,
                       const at::Tensor& desirable) const {
  const double beta = options_.beta;
  if (options_.loss_type == KtoLoss::kApoZeroUnpaired) {
    const at::Tensor chance = at::sigmoid(ratio.mul(beta));
    return at::where(desirable, chance.neg().add(1).mul(options_.desirable_weight),
                     chance.mul(options_.undesirable_weight));
  }
  const at::Tensor gain = at::sigmoid(ratio.sub(kl).mul(beta)).neg().add(1);
  const at::Tensor cost = at::sigmoid(kl.sub(ratio).mul(beta)).neg().add(1);
  return at::where(desirable, gain.mul(options_.desirable_weight),
                   cost.mul(options_.undesirable_weight));
}

ScoredAnswers Kto::score(Model& model, const Batch& batch) {
  const Batch rows = answers_of(batch);
  const at::Tensor desirable = batch.segments.select(1, 0).eq(1);
  const at::Tensor before = reference_.is_read() ? reference_.rows_of(batch, 1).squeeze(1)
                                                 : reference_.log_probs(kName, model, rows);
  const at::Tensor kl = options_.loss_type == KtoLoss::kKto ? estimated_kl(model, rows)
                                                            : at::zeros({}, before.options());
  const at::Tensor now = log_probs(model, rows);
  const at::Tensor ratio = now.sub(before);
  const at::Tensor columns = at::stack(
      {ratio.mul(options_.beta), now, desirable.to(now.scalar_type()), kl.expand_as(now)}, 1);
  return {losses(ratio, kl, desirable).mean(), columns.detach()};
}

void log_answers(const at::Tensor& rows, StepContext& context) {
  const at::Tensor label = rows.select(1, kAnswerLabel);
  const auto mean = [&](LabelledColumn column, const at::Tensor& which) {
    return rows.select(1, column).to(at::kDouble).mul(which).sum().div(which.sum()).item<double>();
  };
  context.log("kl", rows.select(1, kAnswerKl).to(at::kDouble).mean().item<double>());
  const at::Tensor chosen = label.to(at::kDouble), rejected = chosen.neg().add(1);
  const bool has_chosen = chosen.sum().item<double>() > 0;
  const bool has_rejected = rejected.sum().item<double>() > 0;
  if (has_chosen) {
    context.log("rewards/chosen", mean(kAnswerReward, chosen));
    context.log("logps/chosen", mean(kAnswerLogProb, chosen));
  }
  if (has_rejected) {
    context.log("rewards/rejected", mean(kAnswerReward, rejected));
    context.log("logps/rejected", mean(kAnswerLogProb, rejected));
  }
  if (has_chosen && has_rejected) {
    context.log("rewards/margins", mean(kAnswerReward, chosen) - mean(kAnswerReward, rejected));
  }
}

double Kto::step(StepContext& context) {
  std::vector<at::Tensor> rows;
  std::optional<DropoutOff> scope;
  if (!options_.dropout) scope.emplace(context.model());
  reference_.use_eval(false);
  const double loss = context.update(kRecipeOptimizer, [&](const Batch& batch) {
    ScoredAnswers scored = score(context.model(), batch);
    rows.push_back(std::move(scored.rows));
    return std::move(scored.loss);
  });
  log_answers(context.gather_for_metrics(rows), context);
  return loss;
}

Schema<KtoOptions> Kto::schema() {
  return Schema<KtoOptions>()
      .field("reference", &KtoOptions::reference, kReferenceHelp)
      .hint_for({"ref_model", "reference_model"})
      .field("loss_type", &KtoOptions::loss_type,
             "kto compares log-ratios with an estimate of the divergence from the reference, from "
             "the answers of a micro-batch paired with other prompts; apo_zero_unpaired with 0.")
      .field("beta", &KtoOptions::beta,
             "Strength of the pull to the reference; lower values let the model move further from "
             "it.",
             more_than(0.0))
      .hint_for({"kto_beta"})
      .field("desirable_weight", &KtoOptions::desirable_weight,
             "Weight of desirable answers. Raise it where they are rare: weight times count of "
             "desirable answers is best 1 to 1.33 times that of undesirable ones.",
             at_least(0.0))
      .hint_for({"kto_desirable_weight", "kto_chosen_weight"})
      .field("undesirable_weight", &KtoOptions::undesirable_weight,
             "Weight of undesirable answers.", at_least(0.0))
      .hint_for({"kto_undesirable_weight", "kto_rejected_weight"})
      .field("dropout", &KtoOptions::dropout, kDropoutHelp)
      .hint_for({"disable_dropout"}, "true>false|false>true|{}")
      .field("precompute_ref_log_probs", &KtoOptions::precompute_ref_log_probs, kPrecomputeHelp)
      .check([](const KtoOptions& options, const Node& node, Reading& reading) {
        if (options.reference) want_trained_weights(*options.reference, "reference", node, reading);
      });
}

const Register<Kto> kto;

}  // namespace
}  // namespace accel
