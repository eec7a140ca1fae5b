#include "models/t5/t5_options.h"

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"
#include "core/base/text.h"
#include "models/hf/tied_head.h"
#include "models/layers/sizes.h"
#include "models/layers/tensor_parallel.h"
#include "models/layers/transformer_schema.h"

namespace accel {
namespace {

constexpr auto kT5Lacks = "this model does not do";
constexpr std::string_view kGated = "gated-";
constexpr std::string_view kSharedTable = "shared.weight", kOwnHead = "lm_head.weight";
/// transformers' module has the table of positions in the attention of the first block, which all
/// blocks read.
constexpr std::string_view kTable = "relative_attention_bias.";
constexpr std::string_view kFirstAttention = "block.0.layer.0.SelfAttention.";

/// `name` with `from` behind "encoder." or "decoder." replaced by `to`.
std::string with_table_at(const std::string& name, std::string_view from, std::string_view to) {
  for (const std::string_view stack : {"encoder.", "decoder."}) {
    const std::string prefix = std::string(stack).append(from);
    if (!name.starts_with(prefix)) continue;
    return std::string(stack).append(to).append(name.substr(prefix.size()));
  }
  return name;
}

std::string stored_t5_name(const std::string& name) {
  return with_table_at(name, kTable, std::string(kFirstAttention).append(kTable));
}

std::string loaded_t5_name(const std::string& name) {
  return with_table_at(name, std::string(kFirstAttention).append(kTable), kTable);
}

/// Whether the folder has a head that is not the embedding: as in transformers 5, the weights say
/// so, and `tie_word_embeddings` does not.
bool has_t5_head(HfConfig& config) {
  try {
    const HfWeights weights(config.path().substr(0, config.path().rfind('/')));
    return has_own_head(weights.tensors(), {std::string(kOwnHead)}, {std::string(kSharedTable)});
  } catch (const DataError& error) {
    config.refuse(error.what());
    return false;
  }
}

/// `feed_forward_proj`: the name of an activation, "gated-" before that of a gated MLP.
void read_feed_forward(HfConfig& config, T5Options& options) {
  const bool is_mt5 = config.model_type() == "mt5";
  const std::string form = config.text("feed_forward_proj", is_mt5 ? "gated-gelu" : "relu");
  options.is_gated_act = form.starts_with(kGated);
  std::string name = options.is_gated_act ? form.substr(kGated.size()) : form;
  if (form == "gated-gelu") name = "gelu_new";
  const nlohmann::json one = {{"feed_forward_proj", name}};
  HfConfig section(one.dump(), config.path());
  options.activation = activation_in(section, "feed_forward_proj", options.activation);
  for (const std::string& problem : section.problems()) config.refuse(problem);
  config.want("dense_act_fn", name, "differs from 'feed_forward_proj'");
  config.want("is_gated_act", options.is_gated_act, "differs from 'feed_forward_proj'");
}

std::string feed_forward_name(const T5Options& options) {
  if (!options.is_gated_act) return config_name(options.activation);
  if (options.activation == HfActivation::kGeluTanh) return "gated-gelu";
  return std::string(kGated).append(config_name(options.activation));
}

void check_t5(const T5Options& options, const Node& node, Reading& reading) {
  if (!options.head_dim) {
    check_multiple({"hidden_size", options.hidden_size}, {"num_heads", options.num_heads}, node,
                   reading);
  }
  // An encoder has half of the buckets in each direction, and half of these are exact.
  if (options.relative_attention_num_buckets % 2 != 0) {
    reading.problems.error(node.where,
                           accel::text("'relative_attention_num_buckets' must be even, not {}",
                                       options.relative_attention_num_buckets));
  }
  if (options.relative_attention_max_distance <= options.relative_attention_num_buckets / 2) {
    reading.problems.error(
        node.where,
        accel::text("'relative_attention_max_distance' is {}, but {} distances have their own "
                    "bucket",
                    options.relative_attention_max_distance,
                    options.relative_attention_num_buckets / 2),
        "raise it, or lower 'relative_attention_num_buckets'");
  }
  if (options.is_gated_act && options.activation == HfActivation::kGelu) {
    reading.problems.error(node.where, "'activation: gelu' has no gated form in transformers",
                           "set 'gelu_new', which is 'gated-gelu' there");
  }
}

Schema<T5Options> t5_sizes() {
  using Options = T5Options;
  const auto count = at_least<int64_t>(1);
  auto sizes = with_sizes(
      with_blocks(Schema<Options>()
                      .field("vocab_size", &Options::vocab_size, "Token ids are below this.",
                             if_given<Auto>(at_least<int64_t>(2)))
                      .on_resume(Change::kImpossible)
                      .hint_for({"n_vocab", "num_embeddings"})),
      "Features inside a block's MLP; auto: four times the hidden size.");
  return std::move(sizes)
      .field("num_decoder_layers", &Options::num_decoder_layers,
             "Blocks of the decoder; auto: `num_layers`, those of the encoder.",
             if_given<Auto>(count))
      .on_resume(Change::kImpossible)
      .field("head_dim", &Options::head_dim,
             "Features of a head's query, key and value; auto: hidden size / heads.",
             if_given<Auto>(count))
      .on_resume(Change::kImpossible)
      .hint_for({"d_kv"})
      .field("activation", &Options::activation, "In a block's MLP.")
      .on_resume(Change::kImpossible)
      .hint_for({"feed_forward_proj", "dense_act_fn"})
      .field("is_gated_act", &Options::is_gated_act,
             "Whether a second layer of the MLP is multiplied with the activation, as in T5 v1.1 "
             "and FLAN-T5 with `activation: gelu_new`.")
      .on_resume(Change::kImpossible)
      .field("relative_attention_num_buckets", &Options::relative_attention_num_buckets,
             "Buckets of relative positions; an encoder has half of them in each direction.",
             at_least<int64_t>(4))
      .on_resume(Change::kImpossible)
      .field("relative_attention_max_distance", &Options::relative_attention_max_distance,
             "Distance from which on all positions have one bucket.", at_least<int64_t>(2))
      .on_resume(Change::kImpossible);
}

}  // namespace

Schema<T5Options> T5Options::schema() {
  using Options = T5Options;
  auto sizes = with_tie_embeddings(with_norm_eps(t5_sizes(), "Added to a norm's variance."));
  return with_weights(
      std::move(sizes)
          .field("scale_decoder_outputs", &Options::scale_decoder_outputs,
                 "Whether the head reads hidden states divided by the root of the hidden size; "
                 "auto: with a tied head, as T5.")
          .on_resume(Change::kImpossible)
          .field("decoder_start_token_id", &Options::decoder_start_token_id,
                 "The token before the first one of a target: T5's padding token.",
                 at_least<int64_t>(0))
          .on_resume(Change::kImpossible)
          .field("dropout", &Options::dropout,
                 "Dropout of embeddings, attention weights, the outputs of attention and MLP, and "
                 "inside the MLP.",
                 within(0.0, 1.0))
          .hint_for({"dropout_rate"})
          .field("initializer_factor", &Options::initializer_factor,
                 "Factor of the standard deviations of initial weights, and of the initial weight "
                 "of norms.",
                 more_than(0.0))
          .check(&check_t5));
}

bool T5Options::reads(const std::string& model_type) {
  return model_type == "t5" || model_type == "mt5";
}

T5Options T5Options::from_config(HfConfig& config) {
  config.want("is_encoder_decoder", true, kT5Lacks);
  config.ignore({"n_positions", "is_decoder", "classifier_dropout", "scalable_attention"});
  T5Options options;
  options.vocab_size = {config.integer("vocab_size")};
  options.num_layers = config.integer("num_layers");
  options.num_decoder_layers = {config.integer("num_decoder_layers", options.num_layers)};
  options.num_heads = config.integer("num_heads");
  options.hidden_size = config.integer("d_model");
  options.head_dim = {config.integer("d_kv")};
  options.intermediate_size = {config.integer("d_ff")};
  read_feed_forward(config, options);
  options.norm_eps = config.number("layer_norm_epsilon", options.norm_eps);
  options.relative_attention_num_buckets =
      config.integer("relative_attention_num_buckets", options.relative_attention_num_buckets);
  options.relative_attention_max_distance =
      config.integer("relative_attention_max_distance", options.relative_attention_max_distance);
  const bool is_tied = config.flag("tie_word_embeddings", true);
  const bool scales = config.model_type() != "mt5" && is_tied;
  options.tie_embeddings = !has_t5_head(config);
  options.scale_decoder_outputs = {config.flag("scale_decoder_outputs", scales)};
  options.decoder_start_token_id = config.integer("decoder_start_token_id", 0);
  options.dropout = config.number("dropout_rate", 0.1);
  options.initializer_factor = config.number("initializer_factor", 1.0);
  return options;
}

void T5Options::to_config(const WeightShapes& shapes, nlohmann::json& config) const {
  const bool is_mt5 = config.value("model_type", "") == "mt5" && !scales_outputs();
  config["model_type"] = is_mt5 ? "mt5" : "t5";
  config["architectures"] = {is_mt5 ? "MT5ForConditionalGeneration" : "T5ForConditionalGeneration"};
  config["is_encoder_decoder"] = true;
  config["vocab_size"] = shapes.at(std::string(kSharedTable)).at(0);
  config["num_layers"] = num_layers;
  config["num_decoder_layers"] = decoder_layers();
  config["num_heads"] = num_heads;
  config["d_model"] = hidden_size;
  config["d_kv"] = per_head();
  config["d_ff"] = inner();
  config["feed_forward_proj"] = feed_forward_name(*this);
  config["dense_act_fn"] = config_name(activation);
  config["is_gated_act"] = is_gated_act;
  config["layer_norm_epsilon"] = norm_eps;
  config["relative_attention_num_buckets"] = relative_attention_num_buckets;
  config["relative_attention_max_distance"] = relative_attention_max_distance;
  // transformers 4 ties the head by this key and scales a tied one; 5 scales by the second key.
  config["tie_word_embeddings"] = tie_embeddings && scales_outputs();
  if (!is_mt5) config["scale_decoder_outputs"] = scales_outputs();
  config["decoder_start_token_id"] = decoder_start_token_id;
  nlohmann::json& pad = config["pad_token_id"];  // transformers computes no loss without it
  if (pad.is_null()) pad = decoder_start_token_id;
  config["dropout_rate"] = dropout;
  config["initializer_factor"] = initializer_factor;
}

TensorPlan t5_tensor_plan(const T5Options& options, int64_t ranks) {
  using enum TensorStyle;
  check_divides("num_heads", options.num_heads, ranks);
  TensorPlan plan = {{"shared", kEmbeddingRowwise},
                     {"encoder.relative_attention_bias", kRowwise},
                     {"decoder.relative_attention_bias", kRowwise}};
  const auto add = [&](const std::string& layer, std::initializer_list<const char*> inner,
                       const char* outer) {
    for (const char* const name : inner) plan.push_back({layer + name, kColwise});
    plan.push_back({layer + outer, kRowwise});
  };
  for (const char* const attention :
       {"encoder.block.*.layer.0.SelfAttention.", "decoder.block.*.layer.0.SelfAttention.",
        "decoder.block.*.layer.1.EncDecAttention."}) {
    add(attention, {"q", "k", "v"}, "o");
  }
  for (const char* const mlp :
       {"encoder.block.*.layer.1.DenseReluDense.", "decoder.block.*.layer.2.DenseReluDense."}) {
    if (options.is_gated_act) {
      add(mlp, {"wi_0", "wi_1"}, "wo");
    } else {
      add(mlp, {"wi"}, "wo");
    }
  }
  if (!options.tie_embeddings) plan.push_back({"lm_head", kColwise});
  return plan;
}

HfNames T5Options::names() const {
  HfNames out;
  out.unused = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
                "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};
  out.stored = &stored_t5_name;
  out.loaded = &loaded_t5_name;
  out.unquantized = "wo";
  out.module = {.name = &stored_t5_name, .later = {{"relative_attention_bias", "o"}}};
  if (!tie_embeddings) return out;
  out.tied_table = kSharedTable;
  out.unused.emplace_back(kOwnHead);
  return out;
}

}  // namespace accel
