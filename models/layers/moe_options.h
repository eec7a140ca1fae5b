// Options of a mixture of experts, and their keys in Hugging Face's configs.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/recipe/registry.h"

namespace accel {

class HfConfig;

/// Transformer layers with several MLPs, of which each token passes through a few.
struct MoeOptions {
  int64_t num_experts = 0;  ///< 0: dense layers
  int64_t num_experts_per_tok = 2;
  Auto<int64_t> intermediate_size;
  bool norm_topk_prob = true;
  int64_t decoder_sparse_step = 1;
  std::vector<int64_t> mlp_only_layers;
  double bias_update_rate = 0;
  int64_t shared_expert_intermediate_size = 0;  ///< 0: none
  bool shared_expert_gate = true;

  bool has_experts(int64_t layer) const;
  /// Whether all layers have experts.
  bool is_everywhere() const { return decoder_sparse_step == 1 && mlp_only_layers.empty(); }

  static Schema<MoeOptions> schema();
  /// Of a Mixtral, Qwen2-MoE or Qwen3-MoE.
  static MoeOptions from_config(HfConfig& config);
  /// `inner`: the resolved intermediate_size. Writes the keys of `model_type` in the config.
  void to_config(int64_t inner, nlohmann::json& config) const;
};

}  // namespace accel
