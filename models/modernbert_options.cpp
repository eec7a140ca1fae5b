#include "models/modernbert_options.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "models/hf/hf_options.h"
#include "models/hf/hf_sizes.h"
#include "models/layers/sizes.h"
#include "models/layers/transformer_schema.h"

namespace accel {
namespace {

constexpr auto kModernBertLacks = "this model does not do";
constexpr HfSizeKeys kModernBertKeys = {.activation = "hidden_activation", .norm_eps = "norm_eps"};

/// Rotary positions of layers with and without a window.
void read_modern_positions(HfConfig& config, ModernBertOptions& options) {
  HfConfig rope = config.section("rope_parameters");
  HfConfig local = rope.section("sliding_attention"), all = rope.section("full_attention");
  rope.refuse_unknown_keys();
  config.want("rope_scaling", nullptr, kModernBertLacks);
  RopeDefaults defaults = {.theta = config.number("global_rope_theta", 160000.0),
                           .context = *options.max_seq_len};
  options.rope = RopeOptions::from_section(all, defaults);
  defaults.theta = config.number("local_rope_theta", 10000.0);
  const RopeOptions sliding = RopeOptions::from_section(local, defaults);
  options.local_rope_theta = sliding.theta;
  if (sliding.scaling != RopeScaling::kNone) {
    config.refuse(text("'{}' scales the rotary positions of 'sliding_attention', which {}",
                       config.path(), kModernBertLacks));
  }
  for (const HfConfig* section : {&rope, &all, &local}) {
    for (const std::string& problem : section->problems()) config.refuse(problem);
  }
  if (options.rope.partial_rotary_factor == 1 && sliding.partial_rotary_factor == 1) return;
  config.refuse(
      text("'{}' rotates a part of each head ('partial_rotary_factor'), which transformers' "
           "ModernBert does not do",
           config.path()));
}

void read_layer_types(HfConfig& config, ModernBertOptions& options) {
  const std::vector<std::string> types = config.texts("layer_types");
  const int64_t every = std::max<int64_t>(1, config.integer("global_attn_every_n_layers", 3));
  if (!types.empty() && static_cast<int64_t>(types.size()) != options.num_layers) {
    config.refuse(text("'{}' has {} 'layer_types' for {} layers", config.path(), types.size(),
                       options.num_layers));
  }
  for (const std::string& type : types) {
    if (type == "sliding_attention" || type == "full_attention") continue;
    config.refuse(
        text("'{}' has '{}' in 'layer_types', which {}", config.path(), type, kModernBertLacks));
  }
  for (int64_t i = 0; i < options.num_layers; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool slides = at < types.size() ? types[at] == "sliding_attention" : i % every != 0;
    options.layer_types.push_back(slides ? LlamaLayerType::kSliding : LlamaLayerType::kFull);
  }
}

}  // namespace

namespace {

Schema<ModernBertOptions> with_biases(Schema<ModernBertOptions> schema) {
  using Options = ModernBertOptions;
  return std::move(schema)
      .field("norm_bias", &Options::norm_bias, "Whether norms have a bias.")
      .on_resume(Change::kImpossible)
      .field("attention_bias", &Options::attention_bias,
             "Whether the layers of attention have a bias.")
      .on_resume(Change::kImpossible)
      .field("mlp_bias", &Options::mlp_bias, "Whether the layers of the MLP have a bias.")
      .on_resume(Change::kImpossible)
      .field("head_bias", &Options::head_bias, "Whether the layer below the head has a bias.")
      .on_resume(Change::kImpossible)
      .field("decoder_bias", &Options::decoder_bias,
             "Whether the head for masked tokens has a bias.")
      .on_resume(Change::kImpossible);
}

Schema<ModernBertOptions> with_windows(Schema<ModernBertOptions> schema) {
  using Options = ModernBertOptions;
  return std::move(schema)
      .field("rope", &Options::rope, "Rotary positions of layers without a window.")
      .on_resume(Change::kImpossible)
      .field("local_rope_theta", &Options::local_rope_theta,
             "`rope.theta` of layers with a window.", more_than(1.0))
      .on_resume(Change::kImpossible)
      .field("local_attention", &Options::local_attention,
             "The window: a token attends to half of this number of tokens on each side. "
             "Smaller is faster in long texts.",
             at_least<int64_t>(2))
      .on_resume(Change::kImpossible)
      .field("layer_types", &Options::layer_types,
             "Which layers have the window: `sliding_attention` or `full_attention` for each, "
             "a shorter list repeats; without a list the first of every 3 has none.")
      .on_resume(Change::kImpossible)
      .field("pooling", &Options::pooling,
             "What the head for classes reads: the first token, or the mean of all.")
      .on_resume(Change::kImpossible)
      .field("pad", &Options::pad,
             "The padding token, whose embedding is not trained; auto: as the folder, else "
             "none.",
             if_given<Auto>(at_least<int64_t>(0)))
      .on_resume(Change::kImpossible);
}

}  // namespace

Schema<ModernBertOptions> ModernBertOptions::schema() {
  using Options = ModernBertOptions;
  const auto chance = within(0.0, 1.0);
  auto sizes = with_norm_eps(
      with_sizes(transformer_schema<Options>("Maximum sequence length."),
                 "Features inside the MLP; auto: one and a half times the hidden size."),
      "Added to a norm's variance.");
  auto heads = with_num_classes(
      std::move(sizes)
          .field("head", &Options::head,
                 "classes (or numbers) of the text, masked tokens, labels of tokens, or the span "
                 "of an answer; auto: by the targets.")
          .on_resume(Change::kImpossible),
      "Number of classes, or of values to predict.", 1);
  return with_weights(
      with_windows(with_biases(with_problem_type(std::move(heads))))
          .field("activation", &Options::activation, "Activation of the MLP.")
          .on_resume(Change::kImpossible)
          .field("head_activation", &Options::head_activation, "Activation below the head.")
          .on_resume(Change::kImpossible)
          .field("embedding_dropout", &Options::embedding_dropout, "Dropout of embeddings.", chance)
          .field("attention_dropout", &Options::attention_dropout,
                 "Dropout of attention weights and outputs.", chance)
          .field("mlp_dropout", &Options::mlp_dropout, "Dropout inside the MLP.", chance)
          .field("head_dropout", &Options::head_dropout, "Dropout before the head.", chance)
          .check([](const Options& options, const Node& node, Reading& reading) {
            const bool whole = check_multiple({"hidden_size", options.hidden_size},
                                              {"num_heads", options.num_heads}, node, reading);
            if (whole) options.rope.check(options.head_dim(), node, reading);
            if (options.rope.partial_rotary_factor == 1) return;
            reading.problems.error(node.where,
                                   "'modernbert' rotates all of a head: "
                                   "'rope.partial_rotary_factor' must be 1",
                                   "leave it out");
          }));
}

ModernBertOptions ModernBertOptions::from_config(HfConfig& config) {
  config.want("tie_word_embeddings", true, kModernBertLacks);
  // Of kernels, of initial weights, and of losses over masked tokens only.
  config.ignore({"deterministic_flash_attn", "reference_compile", "repad_logits_with_grad",
                 "initializer_cutoff_factor", "sparse_prediction", "sparse_pred_ignore_index",
                 "position_embedding_type", "layer_norm_eps", "global_attn_every_n_layers"});
  ModernBertOptions options;
  options.vocab_size = {config.integer("vocab_size")};
  options.max_seq_len = {config.integer("max_position_embeddings", 8192)};
  read_hf_sizes(config, kModernBertKeys, options);
  options.head_activation = activation_in(config, "classifier_activation", HfActivation::kGelu);
  options.norm_bias = config.flag("norm_bias", false);
  options.attention_bias = config.flag("attention_bias", false);
  options.mlp_bias = config.flag("mlp_bias", false);
  options.head_bias = config.flag("classifier_bias", false);
  options.decoder_bias = config.flag("decoder_bias", true);
  options.local_attention = config.integer("local_attention", 128);
  read_layer_types(config, options);
  const std::string pooling = config.text("classifier_pooling", "cls");
  if (pooling != "cls" && pooling != "mean") {
    config.refuse(text("'{}' has '{}' for 'classifier_pooling', which {}", config.path(), pooling,
                       kModernBertLacks));
  }
  options.pooling = pooling == "mean" ? TextPooling::kMean : TextPooling::kCls;
  const int64_t usual_pad = config.values().contains("pad_token_id") ? -1 : 50283;
  const int64_t pad = config.integer("pad_token_id", usual_pad);
  if (pad >= 0) options.pad = {pad};
  options.embedding_dropout = config.number("embedding_dropout", 0.0);
  options.attention_dropout = config.number("attention_dropout", 0.0);
  options.mlp_dropout = config.number("mlp_dropout", 0.0);
  options.head_dropout = config.number("classifier_dropout", 0.0);
  read_modern_positions(config, options);
  options.problem_type = problem_type_in(config);
  if (const auto head = encoder_head_in(config.architecture())) {
    if (*head != EncoderHead::kTokens) options.num_classes = {label_count(config)};
  }
  return options;
}

void ModernBertOptions::to_config(const WeightShapes& shapes, nlohmann::json& config) const {
  config["model_type"] = "modernbert";
  const auto classes = shapes.find("classifier.weight");
  const bool of_tokens = classes == shapes.end();
  // The weights of the other heads have equal names; export tells them apart by the task.
  const EncoderHead written = of_tokens ? EncoderHead::kTokens : EncoderHead::kClasses;
  config["architectures"] = {std::string("ModernBert") + architecture_suffix(written)};
  if (!of_tokens) write_labels(classes->second.at(0), config);
  config["vocab_size"] = shapes.at("model.embeddings.tok_embeddings.weight").at(0);
  if (max_seq_len) config["max_position_embeddings"] = *max_seq_len;
  if (rope.scaling == RopeScaling::kDynamic) {
    config["max_position_embeddings"] = rope.original_max_position_embeddings;
  }
  write_hf_sizes(*this, inner(), kModernBertKeys, config);
  config["classifier_activation"] = config_name(head_activation);
  config["norm_bias"] = norm_bias;
  config["attention_bias"] = attention_bias;
  config["mlp_bias"] = mlp_bias;
  config["classifier_bias"] = head_bias;
  config["decoder_bias"] = decoder_bias;
  config["local_attention"] = local_attention;
  config["layer_types"] = nlohmann::json::array();
  for (int64_t i = 0; i < num_layers; ++i) {
    config["layer_types"].push_back(slides(i) ? "sliding_attention" : "full_attention");
  }
  config["classifier_pooling"] = pooling == TextPooling::kMean ? "mean" : "cls";
  config["pad_token_id"] = pad ? nlohmann::json(*pad) : nlohmann::json();
  config["embedding_dropout"] = embedding_dropout;
  config["attention_dropout"] = attention_dropout;
  config["mlp_dropout"] = mlp_dropout;
  config["classifier_dropout"] = head_dropout;
  config["rope_parameters"] = {{"full_attention", rope.to_section()},
                               {"sliding_attention", local_rope().to_section()}};
  for (const char* key : {"global_rope_theta", "local_rope_theta", "global_attn_every_n_layers"}) {
    config.erase(key);
  }
}

}  // namespace accel
