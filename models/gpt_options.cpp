#include "models/gpt_options.h"

#include <nlohmann/json.hpp>

#include "models/hf/hf_options.h"
#include "models/hf/hf_sizes.h"
#include "models/hf/tied_head.h"
#include "models/layers/sizes.h"
#include "models/layers/transformer_schema.h"

namespace accel {

Schema<GptOptions> GptOptions::schema() {
  auto sizes = with_sizes(transformer_schema<GptOptions>("Maximum sequence length."),
                          "Features inside a block's MLP; auto: four times the hidden size.")
                   .field("activation", &GptOptions::activation, "Between the MLP's two layers.")
                   .on_resume(Change::kImpossible);
  sizes = with_decoder_head(
      with_tie_embeddings(with_norm_eps(std::move(sizes), "Added to a norm's variance.")));
  const auto chance = within(0.0, 1.0);
  return with_weights(
      std::move(sizes)
          .field("dropout", &GptOptions::dropout,
                 "Dropout of embeddings, attention weights and block outputs.", chance)
          .field("attention_dropout", &GptOptions::attention_dropout,
                 "Dropout of attention weights; auto: dropout.", if_given<Auto>(chance))
          .field("embedding_dropout", &GptOptions::embedding_dropout,
                 "Dropout of embeddings; auto: dropout.", if_given<Auto>(chance))
          .check([](const GptOptions& options, const Node& node, Reading& reading) {
            check_multiple({"hidden_size", options.hidden_size}, {"num_heads", options.num_heads},
                           node, reading);
            check_decoder_head(options, node, reading);
          }));
}

namespace {

constexpr HfSizeKeys kGptKeys = {.num_layers = "n_layer",
                                 .num_heads = "n_head",
                                 .hidden_size = "n_embd",
                                 .intermediate_size = "n_inner",
                                 .activation = "activation_function",
                                 .norm_eps = "layer_norm_epsilon",
                                 .intermediate_factor = 4};

}  // namespace

GptOptions gpt_options_in(HfConfig& config) {
  constexpr auto kNotBuilt = "this model does not do";
  config.want("scale_attn_weights", true, kNotBuilt);
  config.want("scale_attn_by_inverse_layer_idx", false, kNotBuilt);
  config.want("add_cross_attention", false, kNotBuilt);
  // Of a head with two outputs, of attention in 16 bits, and old names.
  config.ignore({"summary_activation", "summary_first_dropout", "summary_proj_to_labels",
                 "summary_type", "summary_use_proj", "reorder_and_upcast_attn", "n_ctx",
                 "n_special", "predict_special_tokens"});
  GptOptions options;
  options.vocab_size = {config.integer("vocab_size")};
  options.max_seq_len = {config.integer("n_positions")};
  read_hf_sizes(config, kGptKeys, options);
  options.tie_embeddings = config.flag("tie_word_embeddings", true);
  options.dropout = config.number("resid_pdrop", 0.1);
  options.attention_dropout = {config.number("attn_pdrop", 0.1)};
  options.embedding_dropout = {config.number("embd_pdrop", 0.1)};
  read_decoder_head(config, options);
  if (has_own_head(config, options.names())) options.tie_embeddings = false;
  return options;
}

void write_gpt_options(const GptOptions& options, const WeightShapes& shapes,
                       nlohmann::json& config) {
  config["model_type"] = "gpt2";
  const EncoderHead kind = options.head_kind();
  config["architectures"] = {options.is_language_model()
                                 ? std::string("GPT2LMHeadModel")
                                 : std::string("GPT2").append(architecture_suffix(kind))};
  if (!options.is_language_model()) {
    DecoderHead::of("gpt", options)
        .write(std::string(decoder_head_layer(kind)) + ".weight", shapes, config);
  }
  config["vocab_size"] = shapes.at("transformer.wte.weight").at(0);
  config["n_positions"] = shapes.at("transformer.wpe.weight").at(0);
  write_hf_sizes(options, options.inner(), kGptKeys, config);
  config["tie_word_embeddings"] = options.tie_embeddings;
  config["resid_pdrop"] = options.dropout;
  config["attn_pdrop"] = options.attention_dropout.value_or(options.dropout);
  config["embd_pdrop"] = options.embedding_dropout.value_or(options.dropout);
}

HfNames GptOptions::names() const {
  HfNames out;
  out.base = "transformer.";
  out.transposed = {"*.c_attn.weight", "*.c_proj.weight", "*.c_fc.weight"};
  out.unused = {"*.attn.bias", "*.attn.masked_bias"};
  out.module.from_folders_only = true;  // nanoGPT has these names with nn.Linear
  add_head_names(head_kind(), tie_embeddings ? "transformer.wte.weight" : "", "lm_head.weight",
                 out);
  return out;
}

}  // namespace accel
