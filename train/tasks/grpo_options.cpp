#include "train/tasks/grpo_options.h"

#include <string>

#include "core/base/text.h"
#include "train/tasks/frozen_model.h"

namespace accel {

template <>
struct EnumNames<GrpoLoss> {
  static constexpr std::pair<GrpoLoss, const char*> kValues[] = {{GrpoLoss::kGrpo, "grpo"},
                                                                 {GrpoLoss::kBnpo, "bnpo"},
                                                                 {GrpoLoss::kDrGrpo, "dr_grpo"},
                                                                 {GrpoLoss::kDapo, "dapo"}};
};

template <>
struct EnumNames<RewardScale> {
  static constexpr std::pair<RewardScale, const char*> kValues[] = {
      {RewardScale::kGroup, "group"}, {RewardScale::kBatch, "batch"}, {RewardScale::kNone, "none"}};
};

template <>
struct EnumNames<RatioLevel> {
  static constexpr std::pair<RatioLevel, const char*> kValues[] = {
      {RatioLevel::kToken, "token"}, {RatioLevel::kSequence, "sequence"}};
};

namespace {

void check_grpo(const GrpoOptions& options, const Node& node, Reading& reading) {
  const auto refuse = [&](const char* key, const std::string& message, const std::string& hint) {
    const Node::Entry* entry = node.find(key);
    reading.problems.error(entry ? entry->node.where : node.where, message, hint);
  };
  const size_t weights = options.reward_weights.size(), rewards = options.rewards.size();
  if (weights > 0 && weights != rewards) {
    refuse("reward_weights",
           text("'reward_weights' has {} weights for {} rewards", weights, rewards),
           "give one weight for each of 'rewards'");
  }
  if (options.num_iterations == 1) {
    const std::pair<const char*, bool> clipping[] = {
        {"epsilon", options.epsilon != 0.2},
        {"epsilon_high", options.epsilon_high.has_value()},
        {"delta", options.delta.has_value()}};
    for (const auto& [key, given] : clipping) {
      if (!given) continue;
      refuse(key,
             text("'{}' has no effect with 'num_iterations: 1': the weights that sample are those "
                  "that are updated, and the ratio of their probabilities is 1",
                  key),
             text("leave '{}' out, or raise 'num_iterations'", key));
    }
  }
  if (options.beta == 0 && options.reference) {
    refuse("reference", "'reference' has no effect with 'beta: 0'",
           "leave it out, or set 'beta', such as 0.04");
  }
  if (options.beta == 0 && !options.use_bias_correction_kl) {
    refuse("use_bias_correction_kl", "'use_bias_correction_kl' has no effect with 'beta: 0'",
           "leave it out, or set 'beta', such as 0.04");
  }
  if (options.reference) want_trained_weights(*options.reference, "reference", node, reading);
}

Schema<GrpoOptions> with_sampling(Schema<GrpoOptions> schema) {
  return std::move(schema)
      .field("num_generations", &GrpoOptions::num_generations,
             "Completions per prompt: the group whose mean reward is the baseline. A micro-batch "
             "of 4 prompts has 32 completions at 8.",
             at_least<int64_t>(2))
      .hint_for({"group_size", "num_samples"})
      .field("max_completion_length", &GrpoOptions::max_completion_length,
             "Tokens after which a completion is truncated.", at_least<int64_t>(1))
      .hint_for({"max_new_tokens", "max_tokens", "response_length"})
      .field("temperature", &GrpoOptions::temperature,
             "Temperature of sampling, and of the probabilities in the loss.", more_than(0.0))
      .field("top_p", &GrpoOptions::top_p,
             "Sample from the likeliest tokens with this total probability.", between(1e-9, 1.0))
      .field("top_k", &GrpoOptions::top_k, "Sample from the k likeliest tokens; 0: from all.",
             at_least<int64_t>(0))
      .field("min_p", &GrpoOptions::min_p,
             "Sample from tokens with at least this share of the likeliest one's probability.",
             if_given<std::optional>(between(0.0, 1.0)))
      .field("repetition_penalty", &GrpoOptions::repetition_penalty,
             "Above 1 makes tokens of the prompt and of the completion so far less likely.",
             more_than(0.0));
}

Schema<GrpoOptions> with_objective(Schema<GrpoOptions> schema) {
  return std::move(schema)
      .field("loss_type", &GrpoOptions::loss_type,
             "What the losses of tokens are averaged over. dapo: all tokens of the global batch. "
             "bnpo: those of a micro-batch. grpo: the tokens of each completion, then the "
             "completions, which favours short ones among good completions and long ones among bad "
             "ones. dr_grpo: divides by completions times max_completion_length.")
      .field("scale_rewards", &GrpoOptions::scale_rewards,
             "Standard deviation that divides advantages: of the group's rewards, of the global "
             "batch's, or none, as Dr. GRPO.")
      .field("mask_truncated_completions", &GrpoOptions::mask_truncated_completions,
             "Leaves completions without an end token out of the loss, as DAPO.")
      .field("num_iterations", &GrpoOptions::num_iterations,
             "Updates on the completions of a step. One step with 2 is two steps of TRL; the "
             "schedule counts steps.",
             at_least<int64_t>(1))
      .hint_for({"mu", "ppo_epochs"})
      .field("epsilon", &GrpoOptions::epsilon,
             "Clips the ratio of probabilities to within 1 - epsilon and 1 + epsilon, from the "
             "second of 'num_iterations' on.",
             more_than(0.0))
      .field("epsilon_high", &GrpoOptions::epsilon_high,
             "Upper bound in place of 'epsilon'; DAPO has 0.28.",
             if_given<std::optional>(more_than(0.0)))
      .field("delta", &GrpoOptions::delta,
             "Bound of the ratio also where its clipping does not apply, above 1 + epsilon "
             "(INTELLECT-2).",
             if_given<std::optional>(more_than(1.0)))
      .field("importance_sampling_level", &GrpoOptions::importance_sampling_level,
             "Whether the ratio is each token's or, as in GSPO, one of the whole completion.");
}

}  // namespace

Schema<GrpoOptions> grpo_schema() {
  Schema<GrpoOptions> schema =
      Schema<GrpoOptions>()
          .field("rewards", &GrpoOptions::rewards,
                 "Reward functions, whose weighted sum is the reward of a completion.")
          .required()
          .hint_for({"reward_funcs", "reward_functions"})
          .field("reward_weights", &GrpoOptions::reward_weights,
                 "Weight of each of 'rewards'; empty: 1 for each.");
  return with_objective(with_sampling(std::move(schema)))
      .field("beta", &GrpoOptions::beta,
             "Weight of the divergence from the reference. 0: no reference is needed, which saves "
             "its memory.",
             at_least(0.0))
      .hint_for({"kl_coef"})
      .field("use_bias_correction_kl", &GrpoOptions::use_bias_correction_kl,
             "Multiplies the divergence by the ratio of probabilities, which makes its gradient "
             "unbiased.")
      .field("reference", &GrpoOptions::reference,
             "With 'beta': the frozen model that the trained one is compared with, usually the "
             "same section as 'model'. auto: with LoRA, the model without its adapter, which costs "
             "no memory.")
      .hint_for({"ref_model", "reference_model"})
      .field("dropout", &GrpoOptions::dropout,
             "Whether the model's dropout stays active in updates; completions are sampled "
             "without it.")
      .hint_for({"disable_dropout"}, "true>false|false>true|{}")
      .field("log_completions", &GrpoOptions::log_completions,
             "Writes each completion with its rewards, advantage and tokens to "
             "completions/rank_N.jsonl in the run folder.")
      .check(&check_grpo);
}

}  // namespace accel
