// Keys of Llama's families in Hugging Face's configs.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/text.h"
#include "models/encoder_head.h"
#include "models/hf/hf_sizes.h"
#include "models/hf/tied_head.h"
#include "models/llama_families.h"
#include "models/llama_options.h"

namespace accel {
namespace {

using namespace llama_families;  // NOLINT(google-build-using-namespace): the features

constexpr auto kLlamaLacks = "this model does not do";

/// Gemma's configs name the activation otherwise since Gemma 2.
HfSizeKeys size_keys(const LlamaFamily& family) {
  const bool renamed = (family.always & kSandwich) != 0;
  return {.activation = renamed ? "hidden_activation" : "hidden_act", .norm_eps = "rms_norm_eps"};
}

/// Layers with a window of a config that does not list them.
std::vector<LlamaLayerType> usual_layer_types(HfConfig& config, const LlamaFamily& family,
                                              const LlamaOptions& options) {
  using enum LlamaLayerType;
  const std::string type = family.model_type;
  const int64_t full_first = config.integer("max_window_layers", 28);
  const int64_t pattern =
      type == "gemma2" ? 2 : std::max<int64_t>(1, config.integer("sliding_window_pattern", 6));
  std::vector<LlamaLayerType> out;
  for (int64_t i = 0; i < options.num_layers; ++i) {
    bool slides = true;
    if (type == "qwen2" || type == "qwen3") slides = i >= full_first;
    if (type == "qwen2_moe") slides = i % 2 == 0 && i < full_first;
    if (type == "smollm3") slides = !options.has_positions(i);
    if (is_gemma(family)) slides = (i + 1) % pattern != 0;
    out.push_back(slides ? kSliding : kFull);
  }
  return out;
}

std::vector<LlamaLayerType> layer_types_in(HfConfig& config) {
  std::vector<LlamaLayerType> out;
  for (const std::string& layer : config.texts("layer_types")) {
    const bool slides = layer == "sliding_attention";
    out.push_back(slides ? LlamaLayerType::kSliding : LlamaLayerType::kFull);
    if (slides || layer == "full_attention") continue;
    config.refuse(
        text("'{}' has '{}' in 'layer_types', which {}", config.path(), layer, kLlamaLacks));
  }
  return out;
}

void read_windows(HfConfig& config, const LlamaFamily& family, LlamaOptions& options) {
  std::vector<LlamaLayerType> types = layer_types_in(config);
  config.ignore(
      {"sliding_window", "max_window_layers", "sliding_window_pattern", "_sliding_window_pattern"});
  const std::string type = family.model_type;
  const bool may = (family.maybe & kWindows) != 0;
  const bool has_switch = type.starts_with("qwen") || type == "smollm3";
  const bool slides = !has_switch ? may : config.flag("use_sliding_window", false);
  // A missing key has the class's default, null is none.
  const int64_t usual = config.values().contains("sliding_window") ? 0 : family.defaults.window;
  const int64_t window = config.integer("sliding_window", usual);
  if (!may) {
    const bool listed = std::ranges::count(types, LlamaLayerType::kSliding) > 0;
    if (slides || listed) config.want("sliding_window", nullptr, kLlamaLacks);
    return;
  }
  if (!slides || window == 0) {
    if (std::ranges::count(types, LlamaLayerType::kSliding) == 0) return;
    config.refuse(text("'{}' has 'sliding_attention' in 'layer_types' without a window: {}",
                       config.path(),
                       slides ? "'sliding_window' is null" : "'use_sliding_window' is false"));
    return;
  }
  const bool by_layer = (family.maybe & kSomeWindows) != 0;
  if (by_layer && types.empty()) types = usual_layer_types(config, family, options);
  if (by_layer && static_cast<int64_t>(types.size()) < options.num_layers) {
    config.refuse(text("'{}' has {} 'layer_types' for {} layers", config.path(), types.size(),
                       options.num_layers));
  }
  if (!by_layer) types.clear();
  options.sliding_window = {window};
  options.layer_types = std::move(types);
}

void read_positions(HfConfig& config, const LlamaFamily& family, LlamaOptions& options) {
  RopeDefaults defaults = {.theta = family.defaults.theta, .context = *options.max_seq_len};
  if (family.always & kFused) {
    defaults.original = 4096;
    defaults.is_phi3 = true;
  }
  if (!(family.maybe & kLocalRope)) {
    options.rope = RopeOptions::from_config(config, defaults);
  } else {
    HfConfig rope = config.section("rope_parameters");
    HfConfig local = rope.section("sliding_attention");
    HfConfig all = config.has("rope_scaling") ? config.section("rope_scaling")
                                              : rope.section("full_attention");
    rope.refuse_unknown_keys();
    defaults.theta = config.number("rope_theta", defaults.theta);
    options.rope = RopeOptions::from_section(all, defaults);
    defaults.theta = config.number("rope_local_base_freq", 10000.0);
    const RopeOptions sliding = RopeOptions::from_section(local, defaults);
    options.local_rope_theta = {sliding.theta};
    if (sliding.scaling != RopeScaling::kNone) {
      config.refuse(text("'{}' scales the rotary positions of 'sliding_attention', which {}",
                         config.path(), kLlamaLacks));
    }
    for (const HfConfig* section : {&rope, &all, &local}) {
      for (const std::string& problem : section->problems()) config.refuse(problem);
    }
  }
  if (options.rope.partial_rotary_factor != 1 && !(family.maybe & kPartialRotary)) {
    config.refuse(
        text("'{}' rotates a part of each head ('partial_rotary_factor'), which "
             "transformers' {} does not do",
             config.path(), family.prefix));
  }
  if (options.rope.scaling != RopeScaling::kDynamic) return;
  const double longest = options.rope.factor * static_cast<double>(*options.max_seq_len);
  options.max_seq_len = {static_cast<int64_t>(longest)};
}

/// SmolLM3's layers without rotary positions: those with 0 in `no_rope_layers`.
void read_nope(HfConfig& config, LlamaOptions& options) {
  const std::vector<int64_t> list = config.integers("no_rope_layers");
  const int64_t interval = std::max<int64_t>(1, config.integer("no_rope_layer_interval", 4));
  for (int64_t i = 0; i < options.num_layers; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool rotates = at < list.size() ? list[at] != 0 : (i + 1) % interval != 0;
    if (!rotates) options.nope_layers.push_back(i);
  }
  if (!list.empty() && static_cast<int64_t>(list.size()) < options.num_layers) {
    config.refuse(text("'{}' has {} 'no_rope_layers' for {} layers", config.path(), list.size(),
                       options.num_layers));
  }
}

Auto<double> cap_in(HfConfig& config, const char* key, double usual) {
  const double cap = config.number(key, config.values().contains(key) ? 0 : usual);
  return cap > 0 ? Auto<double>{cap} : Auto<double>{};
}

void read_gemma(HfConfig& config, const LlamaFamily& family, LlamaOptions& options) {
  options.zero_centered_gamma = options.scale_embeddings = true;
  options.sandwich_norms = (family.always & kSandwich) != 0;
  config.want("use_bidirectional_attention", false, kLlamaLacks);
  if (!options.sandwich_norms) {
    // transformers 5 reads `hidden_act` alone, in which the first releases meant the tanh form.
    if (options.activation == HfActivation::kGelu) options.activation = HfActivation::kGeluTanh;
    if (activation_in(config, "hidden_activation", options.activation) != options.activation) {
      config.want("hidden_activation", nullptr, "differs from 'hidden_act'");
    }
    return;
  }
  // Google's folders of Gemma 2 have both names of each.
  if (activation_in(config, "hidden_act", options.activation) != options.activation) {
    config.want("hidden_act", nullptr, "differs from 'hidden_activation'");
  }
  config.ignore({"sliding_window_size"});
  options.query_pre_attn_scalar = {config.number("query_pre_attn_scalar", 256)};
  const bool caps = (family.maybe & kScoreCap) != 0;  // by default
  if (caps) {
    options.attn_logit_softcapping = cap_in(config, "attn_logit_softcapping", 50);
  } else {
    config.ignore({"attn_logit_softcapping"});  // which transformers' Gemma 3 does not apply
  }
  options.final_logit_softcapping = cap_in(config, "final_logit_softcapping", caps ? 30 : 0);
}

void read_bias(HfConfig& config, const LlamaFamily& family, LlamaOptions& options) {
  const bool may = (family.maybe & kAttentionBias) != 0;
  if (may && config.flag("attention_bias", false)) options.attention_bias = LlamaBias::kAll;
  const bool may_of_inputs = (family.maybe & kInputBias) != 0 && config.flag("qkv_bias", true);
  if ((family.always & kInputBias) || may_of_inputs) options.attention_bias = LlamaBias::kInputs;
  options.mlp_bias = (family.maybe & kMlpBias) != 0 && config.flag("mlp_bias", false);
}

void read_experts(HfConfig& config, LlamaOptions& options) {
  options.moe = MoeOptions::from_config(config);
  const double balance = config.number("router_aux_loss_coef", 0.001);
  // transformers adds the loss only with this.
  options.router_aux_loss_coef = {config.flag("output_router_logits", false) ? balance : 0.0};
}

/// The code of the first folders of Phi-3, which has since become transformers' own, and keys that
/// this code alone reads.
void read_own_code(HfConfig& config, const LlamaFamily& family) {
  if (!(family.always & kFused)) return;
  config.want("full_attn_mod", 1, kLlamaLacks);
  config.want("interpolate_factor", 1, kLlamaLacks);
  if (!config.has("auto_map")) return;
  const HfConfig classes = config.section("auto_map");
  for (const auto& [loader, place] : classes.values().items()) {
    const std::string code = place.is_string() ? place.get<std::string>() : "";
    const std::string name = code.substr(code.rfind('.') + 1);
    if (loader == "AutoTokenizer" || name.starts_with(family.prefix)) continue;
    config.refuse(text("'{}' has '{}' in 'auto_map', Python code, which is not run", config.path(),
                       code.empty() ? loader : code));
  }
}

void read_head(HfConfig& config, const LlamaFamily& family, LlamaOptions& options) {
  read_decoder_head(config, options, family.defaults.pad);
  config.want("token_classification_bias", true, kLlamaLacks);
}

void write_windows(const LlamaFamily& family, const LlamaOptions& options, nlohmann::json& config) {
  const std::string type = family.model_type;
  const bool may = (family.maybe & kWindows) != 0;
  for (const char* key : {"sliding_window_pattern", "_sliding_window_pattern", "layer_types"}) {
    config.erase(key);
  }
  if (!may) {
    config.erase("sliding_window");
    return;
  }
  bool slides = false;
  nlohmann::json types = nlohmann::json::array();
  for (int64_t i = 0; i < options.num_layers; ++i) {
    slides = slides || options.slides(i);
    types.push_back(options.slides(i) ? "sliding_attention" : "full_attention");
  }
  config["sliding_window"] = type == "qwen2_moe" ? nlohmann::json(0) : nlohmann::json();
  if (options.sliding_window && (slides || is_gemma(family))) {
    config["sliding_window"] = *options.sliding_window;
  }
  if (type.starts_with("qwen") || type == "smollm3") config["use_sliding_window"] = slides;
  if (family.maybe & kSomeWindows) config["layer_types"] = types;
}

void write_positions(const LlamaFamily& family, const LlamaOptions& options,
                     nlohmann::json& config) {
  const RopeOptions& rope = options.rope;
  if (options.max_seq_len) config["max_position_embeddings"] = *options.max_seq_len;
  if (rope.scaling == RopeScaling::kDynamic) {
    config["max_position_embeddings"] = rope.original_max_position_embeddings;
  }
  rope.to_config(config);
  const bool is_scaled = rope.scaling != RopeScaling::kNone;
  config.erase("original_max_position_embeddings");
  if ((family.always & kFused) && is_scaled) {
    config["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  }
  if (family.maybe & kLocalRope) {
    config["rope_parameters"] = {{"full_attention", rope.to_section()},
                                 {"sliding_attention", options.local_rope().to_section()}};
    config.erase("rope_local_base_freq");
  }
  if (family.maybe & kNope) {
    nlohmann::json rotates = nlohmann::json::array();
    for (int64_t i = 0; i < options.num_layers; ++i) {
      rotates.push_back(options.has_positions(i) ? 1 : 0);
    }
    config["no_rope_layers"] = rotates;
  }
}

void write_gemma(const LlamaFamily& family, const LlamaOptions& options, nlohmann::json& config) {
  config.erase(family.always & kSandwich ? "hidden_act" : "hidden_activation");
  if (!(family.always & kSandwich)) {
    if (options.activation != HfActivation::kGelu) return;
    throw Error(ExitCode::kRecipe,
                "transformers' Gemma reads 'activation: gelu' as its approximation by tanh",
                "train with 'activation: gelu_new'");
  }
  const auto cap = [](const Auto<double>& value) {
    return value.value_or(0) > 0 ? nlohmann::json(*value) : nlohmann::json();
  };
  const double scalar =
      options.query_pre_attn_scalar.value_or(static_cast<double>(options.per_head()));
  config["query_pre_attn_scalar"] = scalar;
  if (scalar == static_cast<double>(static_cast<int64_t>(scalar))) {
    config["query_pre_attn_scalar"] = static_cast<int64_t>(scalar);
  }
  config["final_logit_softcapping"] = cap(options.final_logit_softcapping);
  if (family.maybe & kScoreCap) {
    config["attn_logit_softcapping"] = cap(options.attn_logit_softcapping);
  }
}

/// Throws Error (kRecipe) for a head that the family's transformers classes lack.
void check_head(const LlamaFamily& family, EncoderHead head) {
  if (head != EncoderHead::kLabels || !(family.maybe & kLocalRope)) return;
  throw Error(ExitCode::kRecipe, "transformers' Gemma 3 has no class with a head for labels",
              "train with 'head: classes' or 'head: tokens'");
}

/// Throws Error (kRecipe) for sizes and rotary positions that transformers' config refuses.
void check_sizes(const LlamaFamily& family, const LlamaOptions& options) {
  const std::string type = family.model_type;
  if ((family.always & kFused) && options.rope.scaling != RopeScaling::kNone &&
      options.rope.scaling != RopeScaling::kLongRope) {
    throw Error(ExitCode::kRecipe, "transformers' Phi3 has no 'rope.scaling' but longrope",
                "train with 'scaling: longrope', or without 'fused_projections'");
  }
  const bool strict = type == "llama" || type == "gemma2" || type == "gemma3_text";
  if (strict && options.hidden_size % options.num_heads != 0) {
    throw Error(ExitCode::kRecipe,
                text("transformers' {} wants a 'hidden_size' that 'num_heads' divides: {} and {}",
                     family.prefix, options.hidden_size, options.num_heads),
                "train with other sizes");
  }
}

}  // namespace

std::string LlamaOptions::answers_base() const {
  const LlamaFamily* family = answers_family(*this);
  return family ? family->answers_base : "";
}

bool is_llama_type(const std::string& model_type) {
  return family_of(model_type) != nullptr;
}

LlamaOptions llama_options_in(HfConfig& config) {
  const LlamaFamily& family = *family_of(config.model_type());
  LlamaOptions options;
  options.vocab_size = {config.integer("vocab_size")};
  options.max_seq_len = {config.integer("max_position_embeddings", family.defaults.context)};
  options.norm_eps = family.defaults.norm_eps;
  if (is_gemma(family)) options.activation = HfActivation::kGeluTanh;
  read_hf_sizes(config, size_keys(family), options);
  const bool all_heads =
      family.defaults.kv_heads == 0 || config.values().contains("num_key_value_heads");
  options.num_kv_heads = {config.integer("num_key_value_heads",
                                         all_heads ? options.num_heads : family.defaults.kv_heads)};
  const int64_t even = options.num_heads > 0 ? options.hidden_size / options.num_heads : 0;
  const int64_t usual = family.defaults.head_dim;
  options.head_dim = {config.integer("head_dim", usual > 0 ? usual : even)};
  options.qk_norm = (family.always & kQkNorm) != 0;
  options.fused_projections = (family.always & kFused) != 0;
  read_bias(config, family, options);
  if (family.maybe & kNope) read_nope(config, options);
  read_windows(config, family, options);
  read_positions(config, family, options);
  if (family.always & kExperts) read_experts(config, options);
  if (is_gemma(family)) read_gemma(config, family, options);
  if (family.maybe & kResidualDropout) {
    options.residual_dropout = config.number("resid_pdrop", 0.0);
    config.ignore({"embd_pdrop"});  // which transformers' model does not apply
  }
  options.tie_embeddings = config.flag("tie_word_embeddings", family.defaults.tied);
  options.attention_dropout = config.number("attention_dropout", 0.0);
  read_head(config, family, options);
  if (has_own_head(config, options.names())) options.tie_embeddings = false;
  read_own_code(config, family);
  config.ignore({"is_llama_config", "max_sequence_length"});
  return options;
}

void write_llama_options(const LlamaOptions& options, const WeightShapes& shapes,
                         nlohmann::json& config) {
  const bool answers = options.head_kind() == EncoderHead::kSpan;
  const LlamaFamily& family = answers ? *answers_family(options) : family_for(options, config);
  std::string name = family.prefix;
  if (options.has_score()) {
    const EncoderHead head = options.head_kind();
    check_head(family, head);
    if (head == EncoderHead::kClasses && (family.maybe & kLocalRope)) name += "Text";
    name += architecture_suffix(head);
    DecoderHead::of("llama", options)
        .write(std::string(options.head_layer()) + ".weight", shapes, config);
  } else {
    name += "ForCausalLM";
  }
  config.erase("auto_map");  // the code is not exported
  config["pad_token_id"] = options.pad ? nlohmann::json(*options.pad) : nlohmann::json();
  config["model_type"] = family.model_type;
  config["architectures"] = {name};
  config["vocab_size"] = shapes.at("model.embed_tokens.weight").at(0);
  write_hf_sizes(options, options.inner(), size_keys(family), config);
  if (options.moe.num_experts > 0) {
    options.moe.to_config(options.expert_inner(), config);
    config["output_router_logits"] = options.balance() > 0;
    if (options.balance() > 0) config["router_aux_loss_coef"] = options.balance();
  }
  check_sizes(family, options);
  config["num_key_value_heads"] = options.groups();
  config["head_dim"] = options.per_head();
  write_windows(family, options, config);
  write_positions(family, options, config);
  if (is_gemma(family)) write_gemma(family, options, config);
  if (family.maybe & kResidualDropout) config["resid_pdrop"] = options.residual_dropout;
  const bool has_bias = (family.maybe & kAttentionBias) != 0;
  if (family.maybe & kInputBias) {
    config["qkv_bias"] = options.attention_bias == LlamaBias::kInputs;
  }
  if (has_bias) config["attention_bias"] = options.attention_bias == LlamaBias::kAll;
  if (family.maybe & kMlpBias) config["mlp_bias"] = options.mlp_bias;
  config["tie_word_embeddings"] = options.tie_embeddings;
  config["attention_dropout"] = options.attention_dropout;
}

}  // namespace accel
