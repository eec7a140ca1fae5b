#include "models/layers/moe_options.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "models/hf/hf_config.h"

namespace accel {
namespace {

void check_moe(const MoeOptions& options, const Node& node, Reading& reading) {
  if (options.num_experts > 0 && options.num_experts_per_tok > options.num_experts) {
    reading.problems.error(node.where,
                           text("'num_experts_per_tok' is {}, but there are only {} experts",
                                options.num_experts_per_tok, options.num_experts));
  }
  const MoeOptions usual;
  const bool given = options.num_experts_per_tok != usual.num_experts_per_tok ||
                     options.intermediate_size || !options.norm_topk_prob ||
                     options.bias_update_rate > 0 || !options.is_everywhere() ||
                     options.shared_expert_intermediate_size > 0;
  if (options.num_experts == 0 && given) {
    reading.problems.error(node.where, "these options have no effect without experts",
                           "set 'num_experts'");
  }
  if (!options.shared_expert_gate && options.shared_expert_intermediate_size == 0) {
    reading.problems.error(node.where, "'shared_expert_gate' has no effect without a shared expert",
                           "set 'shared_expert_intermediate_size', or leave it out");
  }
}

}  // namespace

bool MoeOptions::has_experts(int64_t layer) const {
  return num_experts > 0 && (layer + 1) % decoder_sparse_step == 0 &&
         std::find(mlp_only_layers.begin(), mlp_only_layers.end(), layer) == mlp_only_layers.end();
}

Schema<MoeOptions> MoeOptions::schema() {
  const auto count = at_least<int64_t>(1);
  return Schema<MoeOptions>()
      .field("num_experts", &MoeOptions::num_experts,
             "MLPs in a layer; 0: one MLP without routing.", at_least<int64_t>(0))
      .on_resume(Change::kImpossible)
      .hint_for({"num_local_experts", "n_routed_experts"})
      .field("num_experts_per_tok", &MoeOptions::num_experts_per_tok,
             "Experts of a token: those that the router finds most probable.", count)
      .on_resume(Change::kImpossible)
      .hint_for({"top_k", "moe_top_k", "router_topk"})
      .field("intermediate_size", &MoeOptions::intermediate_size,
             "Features inside an expert; auto: the model's intermediate_size.",
             if_given<Auto>(count))
      .on_resume(Change::kImpossible)
      .hint_for({"moe_intermediate_size"})
      .field("norm_topk_prob", &MoeOptions::norm_topk_prob,
             "Whether the weights of a token's experts have the sum 1, as in Mixtral. false: their "
             "probabilities.")
      .on_resume(Change::kImpossible)
      .field("decoder_sparse_step", &MoeOptions::decoder_sparse_step,
             "Every n-th layer has experts, the others one MLP.", count)
      .on_resume(Change::kImpossible)
      .field("mlp_only_layers", &MoeOptions::mlp_only_layers,
             "Indices of further layers with one MLP.", each(at_least<int64_t>(0)))
      .on_resume(Change::kImpossible)
      .field("bias_update_rate", &MoeOptions::bias_update_rate,
             "Balance the experts' load without a loss: a bias of each expert, which only its "
             "choice uses, is changed by this amount after each step, up below the mean load and "
             "down above it. 0.001 suits long runs; 0: no bias. `router_aux_loss_coef` is then 0 "
             "unless given.",
             at_least(0.0))
      .hint_for({"moe_router_bias_update_rate", "load_balance_coeff"})
      .field("shared_expert_intermediate_size", &MoeOptions::shared_expert_intermediate_size,
             "Features inside the shared expert of each layer, an MLP applied to every token; 0: "
             "none. For several shared experts, as in DeepSeekMoE, the sum of their features.",
             at_least<int64_t>(0))
      .on_resume(Change::kImpossible)
      .hint_for({"n_shared_experts", "num_shared_experts", "moe_shared_expert_intermediate_size"})
      .field("shared_expert_gate", &MoeOptions::shared_expert_gate,
             "Whether a sigmoid gate scales the shared expert's output by token, as in Qwen2-MoE. "
             "false: DeepSeekMoE.")
      .on_resume(Change::kImpossible)
      .check(&check_moe);
}

MoeOptions MoeOptions::from_config(HfConfig& config) {
  const bool mixtral = config.model_type() == "mixtral";
  const bool qwen2 = config.model_type() == "qwen2_moe";
  MoeOptions options;
  options.num_experts =
      mixtral
          ? config.integer("num_local_experts", 8)
          : config.integer(config.has("num_local_experts") ? "num_local_experts" : "num_experts",
                           qwen2 ? 60 : 128);
  options.num_experts_per_tok = config.integer("num_experts_per_tok", mixtral ? 2 : qwen2 ? 4 : 8);
  if (!mixtral) {
    options.intermediate_size = {config.integer("moe_intermediate_size", qwen2 ? 1408 : 768)};
    options.norm_topk_prob = config.flag("norm_topk_prob", false);
    options.decoder_sparse_step = config.integer("decoder_sparse_step", 1);
    options.mlp_only_layers = config.integers("mlp_only_layers");
  }
  if (qwen2) {
    options.shared_expert_intermediate_size =
        config.integer("shared_expert_intermediate_size", 5632);
  }
  config.want("router_jitter_noise", 0.0, "this model does not do");
  return options;
}

void MoeOptions::to_config(int64_t inner, nlohmann::json& config) const {
  const bool mixtral = config.at("model_type") == "mixtral";
  config[mixtral ? "num_local_experts" : "num_experts"] = num_experts;
  config["num_experts_per_tok"] = num_experts_per_tok;
  if (mixtral) {
    config["intermediate_size"] = inner;
    return;
  }
  config["moe_intermediate_size"] = inner;
  config["norm_topk_prob"] = norm_topk_prob;
  config["decoder_sparse_step"] = decoder_sparse_step;
  config["mlp_only_layers"] = mlp_only_layers;
  if (shared_expert_intermediate_size > 0) {
    config["shared_expert_intermediate_size"] = shared_expert_intermediate_size;
  }
}

}  // namespace accel
