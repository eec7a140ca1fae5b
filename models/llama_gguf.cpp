// Llama's families as llama.cpp has them: metadata, names and layouts of GGUF files.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "models/llama_families.h"
#include "models/llama_gguf_experts.h"
#include "models/llama_options.h"

namespace accel {
namespace {

using llama_families::family_of;

/// A model of llama.cpp's.
struct GgufArchitecture {
  const char* model_type;  ///< transformers'
  const char* name;        ///< llama.cpp's
  bool interleaved =
      false;  ///< it rotates element 2 i with 2 i + 1, and not i with half the head + i
  bool has_biases = false;          ///< optional ones everywhere
  bool has_square_queries = false;  ///< as many features as the model has
  int64_t window_period = 0;  ///< of layers, the last without the window; 0: it knows no windows
};

constexpr GgufArchitecture kGgufArchitectures[] = {
    {.model_type = "llama", .name = "llama", .interleaved = true, .has_biases = true},
    {.model_type = "mistral", .name = "llama", .interleaved = true, .has_biases = true},
    {.model_type = "mixtral", .name = "llama", .interleaved = true, .has_biases = true},
    {.model_type = "smollm3", .name = "smollm3", .interleaved = true},
    {.model_type = "qwen2", .name = "qwen2", .has_square_queries = true},
    {.model_type = "qwen2_moe", .name = "qwen2moe", .has_square_queries = true},
    {.model_type = "qwen3", .name = "qwen3"},
    {.model_type = "qwen3_moe", .name = "qwen3moe"},
    {.model_type = "phi3", .name = "phi3", .has_square_queries = true},
    {.model_type = "gemma", .name = "gemma"},
    {.model_type = "gemma2", .name = "gemma2", .window_period = 2},
    {.model_type = "gemma3_text", .name = "gemma3", .window_period = 6},
};

constexpr int64_t kSmolLm3Period = 4;       ///< of layers, the last without rotary positions
constexpr double kGemmaLocalTheta = 10000;  ///< of Gemma 3's layers with a window

const GgufArchitecture& architecture_of(const std::string& model_type) {
  std::vector<std::string> known;
  for (const GgufArchitecture& architecture : kGgufArchitectures) {
    if (model_type == architecture.model_type) return architecture;
    known.emplace_back(architecture.model_type);
  }
  throw Error(ExitCode::kRecipe,
              text("a GGUF file cannot be written of the model type '{}'", model_type),
              text("it can of {}; export a folder for transformers: '--format transformers'",
                   quoted_list(known)));
}

bool is_gemma_name(std::string_view name) {
  return name.starts_with("gemma");
}

class LlamaGguf {
 public:
  LlamaGguf(const LlamaOptions& options, const nlohmann::json& config,
            const std::vector<TensorSource>& weights)
      : options_(options),
        weights_(stacked_experts(weights)),
        architecture_(architecture_of(config.value("model_type", ""))),
        context_(config.value("max_position_embeddings",
                              family_of(architecture_.model_type)->defaults.context)),
        vocab_(config.value("vocab_size", int64_t{0})) {
    out_.architecture = architecture_.name;
  }

  GgufModel model() && {
    check_parts();
    check_experts();
    check_scores();
    add_sizes();
    add_experts();
    add_windows();
    add_positions();
    for (const TensorSource& weight : weights_) add_weight(weight);
    return std::move(out_);
  }

 private:
  bool is(std::string_view name) const { return architecture_.name == name; }
  bool is_gemma() const { return is_gemma_name(architecture_.name); }
  bool has_experts() const { return options_.moe.num_experts > 0; }

  void add(const char* key, GgufValue value) {
    out_.fields.push_back({text("{}.{}", architecture_.name, key), std::move(value)});
  }
  void add_count(const char* key, int64_t value) { add(key, static_cast<uint32_t>(value)); }
  void add_number(const char* key, double value) { add(key, static_cast<float>(value)); }

  bool is_untied() const {
    return std::ranges::any_of(
        weights_, [](const TensorSource& weight) { return weight.name == "lm_head.weight"; });
  }

  void check_parts() const {
    if (options_.has_score()) refuse_gguf("a head in place of the language model's");
    const HfActivation wanted = is_gemma() ? HfActivation::kGeluTanh : HfActivation::kSilu;
    if (options_.activation != wanted) {
      refuse_gguf(text("'activation' other than that of {}", architecture_.name));
    }
    const bool has_biases = options_.attention_bias == LlamaBias::kAll || options_.mlp_bias;
    if (has_biases && !architecture_.has_biases) {
      refuse_gguf(text("biases in {}", architecture_.name));
    }
    if (is_gemma() && is_untied()) refuse_gguf("a head that is not tied to Gemma's embedding");
    const int64_t width = options_.num_heads * options_.per_head();
    if (architecture_.has_square_queries && width != options_.hidden_size) {
      refuse_gguf(text("'head_dim' of {} in {}, and {} heads and {} features", options_.per_head(),
                       architecture_.name, options_.num_heads, options_.hidden_size));
    }
    for (int64_t i = 0; i < options_.num_layers; ++i) {
      const bool rotates = !is("smollm3") || (i + 1) % kSmolLm3Period != 0;
      if (options_.has_positions(i) == rotates) continue;
      refuse_gguf(
          text("layer {} {} rotary positions ('nope_layers')", i, rotates ? "without" : "with"));
    }
  }

  /// llama.cpp's models of experts have them in all layers, and know the weights of a token's
  /// experts by the model.
  void check_experts() const {
    const MoeOptions& moe = options_.moe;
    if (!has_experts()) return;
    if (!moe.is_everywhere()) {
      refuse_gguf("layers without experts ('moe.decoder_sparse_step', 'moe.mlp_only_layers')");
    }
    if (moe.norm_topk_prob == is("qwen2moe")) {
      refuse_gguf(text("'moe.norm_topk_prob: {}' in {}", moe.norm_topk_prob ? "true" : "false",
                       architecture_.model_type));
    }
    if (moe.bias_update_rate > 0) refuse_gguf("a bias of experts ('moe.bias_update_rate')");
  }

  void add_experts() {
    const MoeOptions& moe = options_.moe;
    if (!has_experts()) return;
    add_count("expert_count", moe.num_experts);
    add_count("expert_used_count", moe.num_experts_per_tok);
    if (is("llama")) return;
    add_count("expert_feed_forward_length", options_.expert_inner());
    if (moe.shared_expert_intermediate_size == 0) return;
    add_count("expert_shared_feed_forward_length", moe.shared_expert_intermediate_size);
  }

  /// The scale and the bounds of attention scores and logits, which llama.cpp knows by the model.
  void check_scores() {
    const int64_t width = options_.per_head();
    const bool is_27b =
        (is("gemma2") && options_.num_layers == 46) || (is("gemma3") && options_.num_layers == 62);
    const int64_t head = is_27b ? options_.hidden_size / options_.num_heads : width;
    const auto usual = static_cast<double>(head);
    if (options_.query_pre_attn_scalar.value_or(static_cast<double>(width)) != usual) {
      refuse_gguf(text("'query_pre_attn_scalar' of {} instead of {}",
                       show_number(*options_.query_pre_attn_scalar), show_number(usual)));
    }
    const double cap = options_.attn_logit_softcapping.value_or(0);
    const double final_cap = options_.final_logit_softcapping.value_or(0);
    if (!is("gemma2")) {
      if (final_cap > 0) refuse_gguf(text("'final_logit_softcapping' in {}", architecture_.name));
      return;
    }
    if (cap == 0 || final_cap == 0) refuse_gguf("a Gemma 2 without soft caps");
    add_number("attn_logit_softcapping", cap);
    add_number("final_logit_softcapping", final_cap);
  }

  void add_sizes() {
    add_count("vocab_size", vocab_);
    add_count("context_length", context_);
    add_count("embedding_length", options_.hidden_size);
    add_count("block_count", options_.num_layers);
    add_count("feed_forward_length",
              is("llama") && has_experts() ? options_.expert_inner() : options_.inner());
    add_count("attention.head_count", options_.num_heads);
    add_count("attention.head_count_kv", options_.groups());
    add_count("attention.key_length", options_.per_head());
    add_count("attention.value_length", options_.per_head());
    add_number("attention.layer_norm_rms_epsilon", options_.norm_eps);
  }

  /// The windows of Gemma's layers, whose pattern is llama.cpp's; others would be ignored.
  void add_windows() {
    const int64_t period = architecture_.window_period;
    if (!options_.sliding_window) {
      if (is("gemma2")) add_count("attention.sliding_window", context_);  // it has one always
      return;
    }
    for (int64_t i = 0; i < options_.num_layers; ++i) {
      if (period == 0) {
        if (!options_.slides(i) || *options_.sliding_window >= context_) continue;
        refuse_gguf(text("'sliding_window' of {}, which it would ignore in {}",
                         *options_.sliding_window, architecture_.model_type));
      }
      if (options_.slides(i) == ((i + 1) % period != 0)) continue;
      refuse_gguf(text("'layer_types' in which not layer {} of {} is the one without a window",
                       period, period));
    }
    if (period > 0) add_count("attention.sliding_window", *options_.sliding_window);
    if (!is("gemma3")) return;
    const RopeOptions local = options_.local_rope();
    if (local.theta != kGemmaLocalTheta || local.scaling != RopeScaling::kNone) {
      refuse_gguf(text("'local_rope_theta' of {} instead of {}", show_number(local.theta),
                       show_number(kGemmaLocalTheta)));
    }
    add_number("rope.freq_base_swa", local.theta);
  }

  int64_t rotated() const {
    return static_cast<int64_t>(static_cast<double>(options_.per_head()) *
                                options_.rope.partial_rotary_factor);
  }

  void add_positions() {
    const RopeOptions& rope = options_.rope;
    add_number("rope.freq_base", rope.theta);
    add_count("rope.dimension_count", rotated());
    switch (rope.scaling) {
      case RopeScaling::kNone:
        return;
      case RopeScaling::kLinear:
        add("rope.scaling.type", std::string("linear"));
        add_number("rope.scaling.factor", rope.factor);
        return;
      case RopeScaling::kLlama3:
        return add_llama3();
      case RopeScaling::kYarn:
        return add_yarn();
      case RopeScaling::kLongRope:
        return add_long_rope();
      case RopeScaling::kDynamic:
        refuse_gguf("'rope.scaling: dynamic'");
    }
  }

  void add_llama3() {
    if (!is("llama")) refuse_gguf(text("'rope.scaling: llama3' in {}", architecture_.name));
    std::vector<float> divisors;
    for (int64_t i = 0; i < rotated() / 2; ++i) {
      const double share = static_cast<double>(2 * i) / static_cast<double>(rotated());
      const auto speed = static_cast<float>(std::pow(options_.rope.theta, -share));
      divisors.push_back(speed / llama3_speed(options_.rope, speed));
    }
    add_divisors("rope_freqs.weight", divisors);
  }

  void add_yarn() {
    const RopeOptions& rope = options_.rope;
    const RopeOptions usual;
    RopeOptions plain = rope;
    plain.attention_factor = {};
    if (is_gemma() || rope.beta_fast != usual.beta_fast || rope.beta_slow != usual.beta_slow ||
        !rope.truncate || attention_factor_of(rope) != attention_factor_of(plain)) {
      refuse_gguf("'rope.scaling: yarn' with options other than the usual ones");
    }
    add("rope.scaling.type", std::string("yarn"));
    add_number("rope.scaling.factor", rope.factor);
    add_count("rope.scaling.original_context_length", rope.original_max_position_embeddings);
  }

  void add_long_rope() {
    const RopeOptions& rope = options_.rope;
    if (!is("phi3")) refuse_gguf(text("'rope.scaling: longrope' in {}", architecture_.name));
    add_number("rope.scaling.attn_factor", attention_factor_of(rope));
    add_count("rope.scaling.original_context_length", rope.original_max_position_embeddings);
    add_divisors("rope_factors_long.weight", {rope.long_factor.begin(), rope.long_factor.end()});
    add_divisors("rope_factors_short.weight", {rope.short_factor.begin(), rope.short_factor.end()});
    out_.notes.push_back(
        text("llama.cpp takes longrope's factors by the context that it was started with: the "
             "long ones above {} tokens, for short texts too",
             rope.original_max_position_embeddings));
  }

  void add_divisors(const char* name, const std::vector<float>& values) {
    const Array array =
        Array::of<float>(DType::kF32, {static_cast<int64_t>(values.size())}, std::span(values));
    out_.tensors.push_back({name, DType::kF32, array.shape(), [array] { return array; }});
  }

  /// llama.cpp's name of a weight.
  std::string name_of(const std::string& name) const {
    const bool is_sandwich = options_.sandwich_norms;
    const GgufName names[] = {
        {"model.embed_tokens.", "token_embd."},
        {"model.norm.", "output_norm."},
        {"lm_head.", "output."},
        {"input_layernorm.", "attn_norm."},
        {"self_attn.q_proj.", "attn_q."},
        {"self_attn.k_proj.", "attn_k."},
        {"self_attn.v_proj.", "attn_v."},
        {"self_attn.qkv_proj.", "attn_qkv."},
        {"self_attn.o_proj.", "attn_output."},
        {"self_attn.q_norm.", "attn_q_norm."},
        {"self_attn.k_norm.", "attn_k_norm."},
        {"post_attention_layernorm.", is_sandwich ? "post_attention_norm." : "ffn_norm."},
        {"pre_feedforward_layernorm.", "ffn_norm."},
        {"post_feedforward_layernorm.", "post_ffw_norm."},
        {"mlp.gate_proj.", "ffn_gate."},
        {"mlp.up_proj.", "ffn_up."},
        {"mlp.gate_up_proj.", "ffn_up."},
        {"mlp.down_proj.", "ffn_down."},
        {"mlp.gate.", "ffn_gate_inp."},
        {"block_sparse_moe.gate.", "ffn_gate_inp."},
        {"mlp.experts.gate_proj.", "ffn_gate_exps."},
        {"block_sparse_moe.experts.w1.", "ffn_gate_exps."},
        {"mlp.experts.up_proj.", "ffn_up_exps."},
        {"block_sparse_moe.experts.w3.", "ffn_up_exps."},
        {"mlp.experts.down_proj.", "ffn_down_exps."},
        {"block_sparse_moe.experts.w2.", "ffn_down_exps."},
        {"mlp.shared_expert_gate.", "ffn_gate_inp_shexp."},
        {"mlp.shared_expert.gate_proj.", "ffn_gate_shexp."},
        {"mlp.shared_expert.up_proj.", "ffn_up_shexp."},
        {"mlp.shared_expert.down_proj.", "ffn_down_shexp."}};
    return gguf_weight_name(name, "model.layers.", names);
  }

  void add_weight(const TensorSource& weight) {
    TensorSource out = stored(weight);
    if (out.name.ends_with(".ffn_gate_inp.weight")) out_.exact.insert(out.name);
    if (out.name.ends_with(".ffn_gate_inp_shexp.weight")) out = as_vector(std::move(out));
    const bool is_head = is("qwen2moe") && out.name == "token_embd.weight" && !is_untied();
    if (is_head) {  // llama.cpp has no tied one there
      out_.tensors.push_back(out);
      out.name = "output.weight";
    }
    out_.tensors.push_back(std::move(out));
  }

  static TensorSource as_vector(TensorSource source) {
    source.shape = {count_of(source.shape)};
    source.read = [read = source.read, shape = source.shape] {
      const Array array = read();
      return Array(array.type(), shape, array.data(), array.owner());
    };
    return source;
  }

  /// The weight in llama.cpp's name and layout.
  TensorSource stored(const TensorSource& weight) const {
    TensorSource out = weight;
    out.name = name_of(weight.name);
    const bool is_query = weight.name.find(".q_proj.") != std::string::npos;
    const bool is_key = weight.name.find(".k_proj.") != std::string::npos;
    if (architecture_.interleaved && (is_query || is_key)) {
      const int64_t heads = is_query ? options_.num_heads : options_.groups();
      out.read = [read = weight.read, heads] { return interleaved(read(), heads); };
    }
    if (options_.zero_centered_gamma && weight.name.ends_with("norm.weight")) {
      out.type = DType::kF32;
      out.read = [read = weight.read] { return plus_one(read()); };
    }
    return out;
  }

  /// Rows of each head in the order 0, half, 1, half + 1, ...
  static Array interleaved(const Array& array, int64_t heads) {
    Array out(array.type(), array.shape());
    const auto rows = static_cast<size_t>(array.shape().front());
    const size_t width = array.bytes() / rows, head = rows / static_cast<size_t>(heads);
    for (size_t row = 0; row < rows; ++row) {
      const size_t first = row / head * head, at = row % head;
      const size_t from = first + at % 2 * (head / 2) + at / 2;
      std::memcpy(out.mutable_data() + row * width, array.data() + from * width, width);
    }
    return out;
  }

  static Array plus_one(const Array& array) {
    Array out(DType::kF32, array.shape());
    const std::span<float> values = out.mutable_as<float>();
    read_floats(array, 0, values);
    for (float& value : values) value += 1;
    return out;
  }

  const LlamaOptions& options_;
  const std::vector<TensorSource> weights_;
  const GgufArchitecture& architecture_;
  int64_t context_, vocab_;
  GgufModel out_;
};

}  // namespace

GgufModel llama_gguf(const LlamaOptions& options, const nlohmann::json& config,
                     const std::vector<TensorSource>& weights) {
  return LlamaGguf(options, config, weights).model();
}

}  // namespace accel
