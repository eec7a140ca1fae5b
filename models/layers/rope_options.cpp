// Options of rotary positions, and their keys in Hugging Face's configs.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "models/hf/hf_config.h"
#include "models/layers/rope.h"

namespace accel {
namespace {

constexpr auto kPartialKey = "partial_rotary_factor";
constexpr auto kOriginalKey = "original_max_position_embeddings";

std::string config_name(RopeScaling scaling) {
  if (scaling == RopeScaling::kNone) return "default";
  for (const auto& [known, name] : EnumNames<RopeScaling>::kValues) {
    if (known == scaling) return name;
  }
  return "";
}

RopeScaling scaling_named(HfConfig& section, const std::string& name, bool is_phi3) {
  if (is_phi3 && (name == "su" || name == "yarn")) return RopeScaling::kLongRope;
  for (const auto& [scaling, unused] : EnumNames<RopeScaling>::kValues) {
    if (name == config_name(scaling)) return scaling;
  }
  section.refuse(
      text("'{}' has the rope type '{}', only default, linear, dynamic, yarn, longrope "
           "and llama3 are supported",
           section.path(), name));
  return RopeScaling::kNone;
}

std::vector<double> numbers_in(HfConfig& section, const char* key) {
  std::vector<double> out;
  if (!section.has(key)) return out;
  const nlohmann::json& values = section.values().at(key);
  for (const nlohmann::json& value : values) {
    if (!values.is_array() || !value.is_number()) {
      section.refuse(text("'{}' has '{}', which must be a list of numbers", section.path(), key));
      return {};
    }
    out.push_back(value.get<double>());
  }
  return out;
}

/// YaRN's `mscale` and `mscale_all_dim` as an attention factor (DeepSeek-V2, arXiv:2405.04434).
Auto<double> yarn_attention_factor(HfConfig& section, double factor) {
  const double mscale = section.number("mscale", 0), of_all = section.number("mscale_all_dim", 0);
  if (section.has("attention_factor")) return {section.number("attention_factor", 1)};
  if (mscale == 0 || of_all == 0 || factor <= 1) return {};
  const double log = std::log(factor);
  return {(0.1 * mscale * log + 1) / (0.1 * of_all * log + 1)};
}

void read_yarn(HfConfig& section, RopeOptions& options) {
  options.attention_factor = yarn_attention_factor(section, options.factor);
  // transformers reads 0 as the default.
  const auto turns = [&](const char* key, double usual) {
    const double given = section.number(key, usual);
    return given == 0 ? usual : given;
  };
  options.beta_fast = turns("beta_fast", options.beta_fast);
  options.beta_slow = turns("beta_slow", options.beta_slow);
  options.truncate = section.flag("truncate", true);
}

void read_long_rope(HfConfig& section, RopeOptions& options) {
  options.short_factor = numbers_in(section, "short_factor");
  options.long_factor = numbers_in(section, "long_factor");
  if (section.has("attention_factor")) {
    options.attention_factor = {section.number("attention_factor", 1)};
  }
  for (const auto& [key, list] :
       {std::pair("short_factor", &options.short_factor), {"long_factor", &options.long_factor}}) {
    if (list->empty()) section.refuse(text("'{}' lacks '{}' of longrope", section.path(), key));
  }
}

void read_scaling(HfConfig& section, const RopeDefaults& defaults, RopeOptions& options) {
  using enum RopeScaling;
  const RopeScaling scaling = options.scaling;
  if (scaling == kNone) return;
  if (scaling == kYarn || scaling == kLongRope || scaling == kLlama3) {
    const int64_t usual = defaults.original.value_or(defaults.context);
    const int64_t given = section.integer(kOriginalKey, usual);
    options.original_max_position_embeddings = defaults.original.value_or(given);
  } else {
    options.original_max_position_embeddings = defaults.context;
  }
  const bool has_ratio = scaling == kYarn || scaling == kLongRope;
  const double ratio = static_cast<double>(defaults.context) /
                       static_cast<double>(options.original_max_position_embeddings);
  options.factor = section.number("factor", has_ratio ? ratio : 1.0);
  if (scaling == kYarn) read_yarn(section, options);
  if (scaling == kLongRope) read_long_rope(section, options);
  if (scaling != kLlama3) return;
  options.low_factor = section.number("low_freq_factor", options.low_factor);
  options.high_factor = section.number("high_freq_factor", options.high_factor);
}

}  // namespace

Schema<RopeOptions> RopeOptions::schema() {
  return Schema<RopeOptions>()
      .field("theta", &RopeOptions::theta, "The longest wavelength in tokens, approximately.",
             more_than(1.0))
      .on_resume(Change::kImpossible)
      .hint_for({"rope_theta", "base"})
      .field("scaling", &RopeOptions::scaling,
             "How to see longer texts. linear: all pairs slower; llama3 and yarn: the slow pairs; "
             "dynamic: slower the longer a text beyond the original context; longrope: by a list "
             "of factors.")
      .on_resume(Change::kImpossible)
      .hint_for({"rope_type", "rope_scaling"})
      .field("factor", &RopeOptions::factor, "So much slower.", at_least(1.0))
      .on_resume(Change::kImpossible)
      .field("low_factor", &RopeOptions::low_factor,
             "Pairs with fewer turns in the trained context are slowed (llama3).", more_than(0.0))
      .on_resume(Change::kImpossible)
      .hint_for({"low_freq_factor"})
      .field("high_factor", &RopeOptions::high_factor,
             "Pairs with more turns in the trained context are left alone (llama3).",
             more_than(0.0))
      .on_resume(Change::kImpossible)
      .hint_for({"high_freq_factor"})
      .field("original_max_position_embeddings", &RopeOptions::original_max_position_embeddings,
             "Tokens of the texts before it was scaled (llama3, yarn, dynamic, longrope).",
             at_least<int64_t>(1))
      .on_resume(Change::kImpossible)
      .renamed_from("trained_context")
      .field("partial_rotary_factor", &RopeOptions::partial_rotary_factor,
             "The share of a head's features that is rotated, the first ones.", more_than(0.0))
      .on_resume(Change::kImpossible)
      .hint_for({"rotary_pct"})
      .field("attention_factor", &RopeOptions::attention_factor,
             "Factor of cosines and sines (yarn, longrope); auto: by `factor`.",
             if_given<Auto>(more_than(0.0)))
      .on_resume(Change::kImpossible)
      .hint_for({"mscale"})
      .field("beta_fast", &RopeOptions::beta_fast,
             "Pairs with more turns in the original context are left alone (yarn).", more_than(0.0))
      .on_resume(Change::kImpossible)
      .field("beta_slow", &RopeOptions::beta_slow,
             "Pairs with fewer turns in the original context are slowed (yarn).", more_than(0.0))
      .on_resume(Change::kImpossible)
      .field("truncate", &RopeOptions::truncate,
             "Whether yarn rounds the bounds between fast and slow pairs to whole pairs.")
      .on_resume(Change::kImpossible)
      .field("short_factor", &RopeOptions::short_factor,
             "So much slower is each pair in texts up to the original context (longrope).")
      .on_resume(Change::kImpossible)
      .field("long_factor", &RopeOptions::long_factor,
             "So much slower is each pair in longer texts (longrope).")
      .on_resume(Change::kImpossible);
}

void RopeOptions::check(int64_t width, const Node& node, Reading& reading) const {
  const auto rotated = static_cast<int64_t>(static_cast<double>(width) * partial_rotary_factor);
  if (partial_rotary_factor > 1) {
    reading.problems.error(node.where, "'partial_rotary_factor' must be at most 1");
  } else if (rotated % 2 != 0 || rotated == 0) {
    reading.problems.error(
        node.where, text("the rotated part of a head must be even and more than 0, not {} of {}",
                         rotated, width));
  }
  if (scaling == RopeScaling::kDynamic && rotated == 2) {
    reading.problems.error(node.where, "'scaling: dynamic' wants at least 4 rotated features");
  }
  const bool is_long_rope = scaling == RopeScaling::kLongRope;
  if (attention_factor && !is_long_rope && scaling != RopeScaling::kYarn) {
    reading.problems.error(node.where, "'attention_factor' has no effect without yarn or longrope",
                           "leave it out");
  }
  for (const auto& [name, list] :
       {std::pair("short_factor", &short_factor), {"long_factor", &long_factor}}) {
    if (!is_long_rope && list->empty()) continue;
    if (!is_long_rope) {
      reading.problems.error(node.where, text("'{}' has no effect without longrope", name),
                             "leave it out");
      continue;
    }
    if (static_cast<int64_t>(list->size()) == rotated / 2) continue;
    reading.problems.error(node.where, text("'{}' has {} numbers, longrope wants one for each of "
                                            "the {} pairs of a head",
                                            name, list->size(), rotated / 2));
  }
}

RopeOptions RopeOptions::from_section(HfConfig& section, const RopeDefaults& defaults) {
  RopeOptions options;
  options.theta = section.number("rope_theta", defaults.theta);
  const std::string old_name = section.text("type", "default");
  options.scaling = scaling_named(section, section.text("rope_type", old_name), defaults.is_phi3);
  options.partial_rotary_factor = section.number(kPartialKey, defaults.partial_rotary_factor);
  read_scaling(section, defaults, options);
  // Types that do not need them do not read them.
  section.ignore({"factor", "low_freq_factor", "high_freq_factor", kOriginalKey, "attention_factor",
                  "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", "short_factor",
                  "long_factor", "short_mscale", "long_mscale", "finetuned"});
  if (section.problems().empty()) section.refuse_unknown_keys();
  return options;
}

RopeOptions RopeOptions::from_config(HfConfig& config, RopeDefaults defaults) {
  HfConfig section =
      config.section(config.has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  defaults.theta = config.number("rope_theta", defaults.theta);
  defaults.partial_rotary_factor = config.number(kPartialKey, defaults.partial_rotary_factor);
  if (config.has(kOriginalKey)) defaults.original = config.integer(kOriginalKey);
  RopeOptions options = from_section(section, defaults);
  for (const std::string& problem : section.problems()) config.refuse(problem);
  return options;
}

nlohmann::json RopeOptions::to_section() const {
  using enum RopeScaling;
  nlohmann::json out = {{"rope_type", config_name(scaling)}, {"rope_theta", theta}};
  if (partial_rotary_factor != 1) out[kPartialKey] = partial_rotary_factor;
  if (scaling == kNone) return out;
  out["factor"] = factor;
  if (scaling == kLlama3) {
    out["low_freq_factor"] = low_factor;
    out["high_freq_factor"] = high_factor;
  }
  if (scaling == kLlama3 || scaling == kYarn || scaling == kLongRope) {
    out[kOriginalKey] = original_max_position_embeddings;
  }
  if (attention_factor) out["attention_factor"] = *attention_factor;
  if (scaling == kYarn) {
    out["beta_fast"] = beta_fast;
    out["beta_slow"] = beta_slow;
    out["truncate"] = truncate;
  }
  if (scaling == kLongRope) {
    out["short_factor"] = short_factor;
    out["long_factor"] = long_factor;
  }
  return out;
}

void RopeOptions::to_config(nlohmann::json& config) const {
  config["rope_parameters"] = to_section();
  for (const char* key : {"rope_scaling", "rope_theta", kPartialKey}) config.erase(key);
}

}  // namespace accel
