// Group relative policy optimization (Shao et al., "DeepSeekMath", 2024).
#include <ATen/ops/cat.h>
#include <ATen/ops/nanmean.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/api/reward.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "kernels/choice.h"
#include "models/layers/dropout_off.h"
#include "train/tasks/completion_rows.h"
#include "train/tasks/completion_scores.h"
#include "train/tasks/grpo_metrics.h"
#include "train/tasks/grpo_options.h"
#include "train/tasks/model_needs.h"
#include "train/tasks/reference_model.h"
#include "train/tasks/rollouts.h"
#include "train/tasks/samples_completions.h"

namespace accel {
namespace {

/// Names of functions in logs: their types, with a number where a type occurs again.
std::vector<std::string> reward_names(const std::vector<Ref<RewardFunction>>& rewards) {
  std::vector<std::string> names;
  std::map<std::string, int> seen;
  for (const Ref<RewardFunction>& reward : rewards) {
    const int number = ++seen[reward.type];
    names.push_back(number == 1 ? reward.type : text("{}_{}", reward.type, number));
  }
  return names;
}

RolloutOptions rollout_options(const GrpoOptions& options, const DataShape& data) {
  RolloutOptions out;
  out.sampling.temperature = options.temperature;
  out.sampling.top_k = options.top_k;
  out.sampling.top_p = options.top_p;
  out.sampling.min_p = options.min_p;
  out.sampling.repetition_penalty = options.repetition_penalty;
  out.sampling.max_new_tokens = options.max_completion_length;
  out.num_generations = options.num_generations;
  out.mask_truncated = options.mask_truncated_completions;
  out.max_length = data.input.empty() ? 0 : data.input[0];
  return out;
}

/// Sums over tokens of a step's passes.
struct TokenSums {
  double kl = 0, low = 0, high = 0, ratios = 0, tokens = 0;
};

class Grpo final : public Task,
                   public AdapterReference,
                   public WholeSequences,
                   public SamplesCompletions {
 public:
  static constexpr auto kName = "grpo";
  static constexpr const char* kHintFor[] = {"group_relative_policy_optimization", "dr_grpo",
                                             "dapo"};
  static constexpr auto kSummary =
      "Group relative policy optimization: a language model samples several completions of each "
      "prompt and learns from their rewards relative to each other.";

  static Schema<GrpoOptions> schema() { return grpo_schema(); }

  Grpo(const GrpoOptions& options, const TaskContext& context);

  std::vector<TaskModel> models() override;
  bool uses_adapter_reference() const override {
    return options_.beta > 0 && reference_.is_adapter_off();
  }

  void set_source(CompletionSource source) override { sampler_.set_source(std::move(source)); }
  int64_t max_completion_length() const override { return options_.max_completion_length; }
  bool needs_end_token() const override { return options_.mask_truncated_completions; }
  std::vector<std::string> columns() const override;
  std::vector<std::string> take_completion_rows() override { return std::exchange(rows_, {}); }

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }
  at::Tensor loss(Model& model, const Batch& batch) override { return evaluate(model, batch).loss; }
  Evaluation evaluate(Model& model, const Batch& batch) override;
  double step(StepContext& context) override;

  std::vector<std::string> metrics() const override { return {"reward"}; }
  std::vector<std::string> default_metrics() const override { return metrics(); }

 private:
  /// Sets the advantages of the rollouts and logs.
  void set_advantages(std::vector<Rollouts>& rollouts, StepContext& context) const;
  /// Tokens that divide the sums of `dapo`, per sample of a micro-batch.
  double tokens_per_sample(const std::vector<Rollouts>& rollouts, StepContext& context) const;
  GrpoTokenLosses token_losses(Model& model, Rollouts& rollouts) const;
  void count(const GrpoTokenLosses& losses, const at::Tensor& mask, TokenSums& sums) const;
  void log_tokens(const TokenSums& sums, StepContext& context) const;
  /// For the completion log.
  void keep_rows(const std::vector<Rollouts>& rollouts, int64_t step);

  GrpoOptions options_;
  std::vector<std::string> names_;
  RewardFunctions rewards_;
  std::vector<double> weights_;
  ReferenceModel reference_;
  RolloutSampler sampler_;
  std::vector<std::string> rows_;  ///< of the completion log
};

Grpo::Grpo(const GrpoOptions& options, const TaskContext& context)
    : options_(options),
      names_(reward_names(options.rewards)),
      weights_(options.reward_weights),
      reference_(options.reference, context),
      sampler_(rollout_options(options, context.data), rewards_, names_) {
  const DataShape& data = context.data;
  if (!has_prompts(data) || data.vocab == 0) {
    throw Error(ExitCode::kRecipe,
                "the task 'grpo' needs prompts, but a sample of the data is " +
                    std::string(name_of(data.input_type)) + " " + to_string(data.input) +
                    " with targets " + to_string(data.target),
                "use the dataset 'prompts'");
  }
  if (options.max_completion_length >= data.input[0]) {
    throw Error(ExitCode::kRecipe,
                text("'max_completion_length' is {}, but the data's 'max_length' of a prompt with "
                     "its completion is {}",
                     options.max_completion_length, data.input[0]),
                "raise 'max_length' of the dataset, or lower 'max_completion_length'");
  }
  for (const Ref<RewardFunction>& reward : options.rewards) {
    rewards_.push_back(reward.make({data}));
  }
  if (weights_.empty()) weights_.assign(rewards_.size(), 1);
}

std::vector<TaskModel> Grpo::models() {
  std::vector<TaskModel> all = reference_.models();
  for (size_t k = 0; k < rewards_.size(); ++k) {
    Model* const model = rewards_[k]->model();
    if (!model) continue;
    all.push_back({.name = text("reward_{}", k + 1), .model = model, .in_checkpoints = false});
  }
  return all;
}

std::vector<std::string> Grpo::columns() const {
  std::vector<std::string> all;
  for (const auto& reward : rewards_) {
    for (std::string& column : reward->columns()) all.push_back(std::move(column));
  }
  return all;
}

void Grpo::set_advantages(std::vector<Rollouts>& rollouts, StepContext& context) const {
  const int64_t group = options_.num_generations;
  const GatheredRollouts all = gather_rollouts(context, rollouts, group);
  const at::Tensor weighted = weighted_rewards(all.rewards, weights_);
  const auto std = nan_std(weighted).item<double>();
  for (Rollouts& own : rollouts) {
    const at::Tensor rewards = weighted_rewards(own.rewards, weights_);
    own.advantages = group_advantages(rewards, group, options_.scale_rewards, std)
                         .to(own.mask.device(), at::kFloat);
  }
  if (has_shapes_only()) return;
  log_rewards(all, weighted, group, names_, context);
  log_completions(all, context);
}

double Grpo::tokens_per_sample(const std::vector<Rollouts>& rollouts, StepContext& context) const {
  double tokens = 0, samples = 0;
  for (const Rollouts& own : rollouts) tokens += own.mask.sum().item<double>();
  for (const Batch& batch : context.micro_batches()) samples += weight(batch);
  const at::Tensor sums = at::zeros({2}, at::kDouble);
  sums.mutable_data_ptr<double>()[0] = tokens;
  sums.mutable_data_ptr<double>()[1] = samples;
  const at::Tensor all = context.ranks().reduce(sums, Reduce::kSum);
  const auto* const total = all.const_data_ptr<double>();
  return std::max(1.0, total[0]) / total[1];
}

GrpoTokenLosses Grpo::token_losses(Model& model, Rollouts& rollouts) const {
  if (options_.beta > 0 && !rollouts.reference.defined()) {
    rollouts.reference =
        reference_.token_log_probs(kName, model, rollouts.rows, options_.temperature);
  }
  const at::Tensor now = target_log_probs(kName, model, rollouts.rows, options_.temperature);
  if (!rollouts.old_log_probs.defined()) rollouts.old_log_probs = now.detach();
  return grpo_token_losses(
      {now, rollouts.old_log_probs, rollouts.reference, rollouts.mask, rollouts.advantages},
      options_.loss());
}

Evaluation Grpo::evaluate(Model& model, const Batch& batch) {
  Rollouts rollouts = sampler_.sample(batch, 0, /*is_training=*/false);
  const at::Tensor rewards = weighted_rewards(rollouts.rewards, weights_);
  rollouts.advantages = group_advantages(rewards, options_.num_generations, options_.scale_rewards,
                                         nan_std(rewards).item<double>())
                            .to(rollouts.mask.device(), at::kFloat);
  const GrpoTokenLosses losses = token_losses(model, rollouts);
  const double tokens = std::max(1.0, rollouts.mask.sum().item<double>());
  const at::Tensor columns =
      at::cat({rewards.unsqueeze(1), rollouts.rewards}, 1)
          .view({-1, options_.num_generations, rollouts.rewards.size(1) + 1});
  return {grpo_batch_loss(losses.losses, rollouts.mask, options_.loss(), tokens),
          at::nanmean(columns, 1)};
}

void Grpo::count(const GrpoTokenLosses& losses, const at::Tensor& mask, TokenSums& sums) const {
  if (has_shapes_only()) return;
  const bool by_sequence = losses.low.size(1) == 1;
  const auto sum = [&](const at::Tensor& values) {
    return (by_sequence ? values : values.mul(mask)).sum().item<double>();
  };
  sums.low += sum(losses.low);
  sums.high += sum(losses.high);
  const auto tokens = mask.sum().item<double>();
  sums.ratios += by_sequence ? static_cast<double>(mask.size(0)) : tokens;
  sums.tokens += tokens;
  if (losses.kl.defined()) sums.kl += losses.kl.mul(mask).sum().item<double>();
}

void Grpo::log_tokens(const TokenSums& sums, StepContext& context) const {
  if (has_shapes_only()) return;
  const at::Tensor own = at::zeros({5}, at::kDouble);
  const double values[] = {sums.kl, sums.low, sums.high, sums.ratios, sums.tokens};
  std::copy(std::begin(values), std::end(values), own.mutable_data_ptr<double>());
  const at::Tensor all = context.ranks().reduce(own, Reduce::kSum);
  const auto* const total = all.const_data_ptr<double>();
  const double ratios = std::max(1.0, total[3]);
  if (options_.beta > 0) context.log("kl", total[0] / std::max(1.0, total[4]));
  if (options_.num_iterations == 1) return;
  context.log("clip_ratio/low_mean", total[1] / ratios);
  context.log("clip_ratio/high_mean", total[2] / ratios);
  context.log("clip_ratio/region_mean", (total[1] + total[2]) / ratios);
}

void Grpo::keep_rows(const std::vector<Rollouts>& rollouts, int64_t step) {
  if (!options_.log_completions || has_shapes_only()) return;
  rows_.clear();  // of a step that is repeated in smaller micro-batches
  for (const Rollouts& own : rollouts) {
    for (std::string& row : completion_rows(own, step, names_)) rows_.push_back(std::move(row));
  }
}

double Grpo::step(StepContext& context) {
  std::vector<Rollouts> rollouts;
  for (const Batch& batch : context.micro_batches()) {
    rollouts.push_back(sampler_.sample(batch, context.step(), /*is_training=*/true));
  }
  set_advantages(rollouts, context);
  keep_rows(rollouts, context.step());
  const double tokens = tokens_per_sample(rollouts, context);
  std::optional<DropoutOff> scope;
  if (!options_.dropout) scope.emplace(context.model());
  TokenSums sums;
  double loss = 0;
  for (int64_t i = 0; i < options_.num_iterations; ++i) {
    loss += context.update(kRecipeOptimizer, [&](const Batch& batch) {
      Rollouts& own = rollouts.at(static_cast<size_t>(&batch - context.micro_batches().data()));
      const GrpoTokenLosses losses = token_losses(context.model(), own);
      count(losses, own.mask, sums);
      return grpo_batch_loss(losses.losses, own.mask, options_.loss(), tokens * weight(batch));
    });
  }
  log_tokens(sums, context);
  return loss / static_cast<double>(options_.num_iterations);
}

const Register<Grpo> grpo;

}  // namespace
}  // namespace accel
