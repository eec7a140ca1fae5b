#include "models/clip/clip_options.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "models/hf/hf_sizes.h"
#include "models/layers/sizes.h"
#include "models/layers/transformer_schema.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr auto kIntermediateHelp =
    "Features inside a block's MLP; auto: four times the hidden size.";

/// The values that transformers takes for keys that a tower's section lacks.
struct ClipTowerDefaults {
  int64_t hidden_size, intermediate_size, heads;
};
constexpr ClipTowerDefaults kTextDefaults = {512, 2048, 8}, kVisionDefaults = {768, 3072, 12};

template <class Options>
void read_clip_tower(HfConfig& section, const ClipTowerDefaults& defaults, Options& options) {
  options.num_layers = section.integer("num_hidden_layers", 12);
  options.num_heads = section.integer("num_attention_heads", defaults.heads);
  options.hidden_size = section.integer("hidden_size", defaults.hidden_size);
  options.intermediate_size = {section.integer("intermediate_size", defaults.intermediate_size)};
  options.activation = activation_in(section, "hidden_act", HfActivation::kQuickGelu);
  options.norm_eps = section.number("layer_norm_eps", 1e-5);
}

/// The values of a tower. As in transformers, all of them are those of `key`_dict where a folder of
/// its first versions has it.
HfConfig clip_section(HfConfig& config, const std::string& key) {
  const std::string first = key + "_dict";
  config.ignore({key.c_str(), first.c_str()});
  HfConfig section = config.section(config.has(first.c_str()) ? first.c_str() : key.c_str());
  // CLIPModel projects to the `projection_dim` of the whole model.
  section.ignore({"projection_dim"});
  return section;
}

void report_clip_section(HfConfig& section, const std::string& key, HfConfig& config) {
  section.refuse_unknown_keys();
  for (const std::string& problem : section.problems()) {
    config.refuse(accel::text("'{}': {}", key, problem));
  }
}

template <class Options>
int64_t clip_intermediate(const Options& options) {
  return options.intermediate_size.value_or(4 * options.hidden_size);
}

template <class Options>
void check_clip_heads(const Options& options, const Node& node, Reading& reading) {
  check_multiple({"hidden_size", options.hidden_size}, {"num_heads", options.num_heads}, node,
                 reading);
}

void check_clip(const ClipOptions& options, const Node& node, Reading& reading) {
  if (options.text.eos_token_id || !options.weights.text.empty()) return;
  const Node::Entry* const section = node.find("text");
  reading.problems.error(
      section ? section->node.where : node.where,
      "'text' has no 'eos_token_id', the token whose hidden state is the embedding of a text",
      "set the number of the tokenizer's end token");
}

/// Rows of patches in an image with these positions.
int64_t patch_rows(const WeightShapes& shapes) {
  const Shape& table = shapes.at("vision_model.embeddings.position_embedding.weight");
  return std::llround(std::sqrt(static_cast<double>(table.at(0) - 1)));
}

}  // namespace

Schema<ClipTextOptions> ClipTextOptions::schema() {
  using Options = ClipTextOptions;
  auto sizes = with_sizes(
      transformer_schema<Options>("Tokens of a text at most; auto: those of the data's texts."),
      kIntermediateHelp);
  return with_norm_eps(std::move(sizes)
                           .field("activation", &Options::activation, "Within the MLP.")
                           .on_resume(Change::kImpossible)
                           .hint_for({"hidden_act"}),
                       "Added to a norm's variance.")
      .field("eos_token_id", &Options::eos_token_id,
             "The token whose hidden state, at its first position, is the embedding of a text; 2: "
             "the token with the highest number, as in transformers, whose first CLIP folders have "
             "that value.",
             if_given<Auto>(at_least<int64_t>(0)))
      .on_resume(Change::kImpossible)
      .check(&check_clip_heads<Options>);
}

Schema<ClipVisionOptions> ClipVisionOptions::schema() {
  using Options = ClipVisionOptions;
  const auto count = at_least<int64_t>(1);
  auto images =
      Schema<Options>()
          .field("image_size", &Options::image_size, "Rows and columns of an image.",
                 if_given<Auto>(count))
          .on_resume(Change::kImpossible)
          .hint_for({"img_size", "input_size"})
          .field("channels", &Options::channels, "Channels of an image.", if_given<Auto>(count))
          .on_resume(Change::kImpossible)
          .hint_for({"num_channels", "in_channels", "in_chans"})
          .field("patch_size", &Options::patch_size, "Rows and columns of a patch.", count)
          .on_resume(Change::kImpossible);
  return with_norm_eps(with_sizes(with_blocks(std::move(images)), kIntermediateHelp)
                           .field("activation", &Options::activation, "Within the MLP.")
                           .on_resume(Change::kImpossible)
                           .hint_for({"hidden_act"}),
                       "Added to a norm's variance.")
      .check(&check_clip_heads<Options>);
}

Schema<ClipOptions> ClipOptions::schema() {
  using Options = ClipOptions;
  return with_weights(
      Schema<Options>()
          .field("text", &Options::text, "The tower of texts, a causal transformer.")
          .on_resume(Change::kImpossible)
          .hint_for({"text_config", "text_cfg"})
          .field("vision", &Options::vision, "The tower of images, a vision transformer.")
          .on_resume(Change::kImpossible)
          .hint_for({"vision_config", "vision_cfg"})
          .field("projection_dim", &Options::projection_dim,
                 "Features of an embedding, to which both towers are projected.",
                 at_least<int64_t>(1))
          .on_resume(Change::kImpossible)
          .hint_for({"embed_dim"})
          .field("logit_scale_init_value", &Options::logit_scale_init_value,
                 "Initial logarithm of the factor of similarities.")
          .field("attention_dropout", &Options::attention_dropout,
                 "Dropout of attention weights in both towers.", within(0.0, 1.0))
          .field("initializer_factor", &Options::initializer_factor,
                 "Factor of the standard deviations of initial weights.", more_than(0.0))
          .check(&check_clip));
}

ClipOptions ClipOptions::from_config(HfConfig& config) {
  ClipOptions options;
  options.projection_dim = config.integer("projection_dim", options.projection_dim);
  options.logit_scale_init_value =
      config.number("logit_scale_init_value", options.logit_scale_init_value);
  options.initializer_factor = config.number("initializer_factor", options.initializer_factor);
  HfConfig text = clip_section(config, "text_config");
  read_clip_tower(text, kTextDefaults, options.text);
  options.text.vocab_size = {text.integer("vocab_size", 49408)};
  options.text.max_seq_len = {text.integer("max_position_embeddings", 77)};
  options.text.eos_token_id = {text.integer("eos_token_id", 49407)};
  options.attention_dropout = text.number("attention_dropout", 0.0);
  report_clip_section(text, "text_config", config);
  HfConfig vision = clip_section(config, "vision_config");
  read_clip_tower(vision, kVisionDefaults, options.vision);
  options.vision.image_size = {vision.integer("image_size", 224)};
  options.vision.channels = {vision.integer("num_channels", 3)};
  options.vision.patch_size = vision.integer("patch_size", 32);
  if (vision.number("attention_dropout", 0.0) != options.attention_dropout) {
    vision.want("attention_dropout", options.attention_dropout, "differs from 'text_config'");
  }
  report_clip_section(vision, "vision_config", config);
  return options;
}

void ClipOptions::to_config(const WeightShapes& shapes, json& config) const {
  config["model_type"] = "clip";
  config["architectures"] = {"CLIPModel"};
  config["projection_dim"] = projection_dim;
  config["logit_scale_init_value"] = logit_scale_init_value;
  config["initializer_factor"] = initializer_factor;
  config.erase("text_config_dict");
  config.erase("vision_config_dict");
  json& of_text = config["text_config"];
  of_text["model_type"] = "clip_text_model";
  write_hf_sizes(text, clip_intermediate(text), {}, of_text);
  of_text["vocab_size"] = shapes.at("text_model.embeddings.token_embedding.weight").at(0);
  of_text["max_position_embeddings"] =
      shapes.at("text_model.embeddings.position_embedding.weight").at(0);
  of_text["eos_token_id"] = *text.eos_token_id;
  json& of_vision = config["vision_config"];
  of_vision["model_type"] = "clip_vision_model";
  write_hf_sizes(vision, clip_intermediate(vision), {}, of_vision);
  of_vision["image_size"] = patch_rows(shapes) * vision.patch_size;
  of_vision["num_channels"] = shapes.at("vision_model.embeddings.patch_embedding.weight").at(1);
  of_vision["patch_size"] = vision.patch_size;
  for (json* section : {&of_text, &of_vision}) {
    (*section)["attention_dropout"] = attention_dropout;
    (*section)["projection_dim"] = projection_dim;
    (*section)["initializer_factor"] = initializer_factor;
  }
}

}  // namespace accel
