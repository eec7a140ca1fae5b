// GPT-2 as llama.cpp has it: metadata and names of GGUF files.
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "models/gpt_options.h"

namespace accel {
namespace {

constexpr auto kGptArchitecture = "gpt2";

constexpr GgufName kGptGgufNames[] = {{"transformer.wte.", "token_embd."},
                                      {"transformer.wpe.", "position_embd."},
                                      {"transformer.ln_f.", "output_norm."},
                                      {"lm_head.", "output."},
                                      {"ln_1.", "attn_norm."},
                                      {"attn.c_attn.", "attn_qkv."},
                                      {"attn.c_proj.", "attn_output."},
                                      {"ln_2.", "ffn_norm."},
                                      {"mlp.c_fc.", "ffn_up."},
                                      {"mlp.c_proj.", "ffn_down."}};

}  // namespace

GgufModel gpt_gguf(const GptOptions& options, const nlohmann::json& config,
                   const std::vector<TensorSource>& weights) {
  if (!options.is_language_model()) refuse_gguf("a head in place of the language model's");
  if (options.activation != HfActivation::kGeluTanh) {
    refuse_gguf(text("'activation' other than that of {}", kGptArchitecture));
  }
  GgufModel out;
  out.architecture = kGptArchitecture;
  const auto add = [&](const char* key, GgufValue value) {
    out.fields.push_back({text("{}.{}", kGptArchitecture, key), std::move(value)});
  };
  const std::pair<const char*, int64_t> counts[] = {
      {"vocab_size", config.at("vocab_size").get<int64_t>()},
      {"context_length", config.at("n_positions").get<int64_t>()},
      {"embedding_length", options.hidden_size},
      {"block_count", options.num_layers},
      {"feed_forward_length", options.inner()},
      {"attention.head_count", options.num_heads}};
  for (const auto& [key, count] : counts) add(key, static_cast<uint32_t>(count));
  add("attention.layer_norm_epsilon", static_cast<float>(options.norm_eps));
  for (TensorSource weight : weights) {
    weight.name = gguf_weight_name(weight.name, "transformer.h.", kGptGgufNames);
    out.tensors.push_back(std::move(weight));
  }
  out.exact = {"position_embd.weight"};
  return out;
}

}  // namespace accel
