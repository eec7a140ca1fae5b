// Size options shared by transformer families and their keys in config.json. A family overrides the
// keys that differ.
#pragma once

#include <nlohmann/json.hpp>

#include "models/hf/hf_config.h"
#include "models/layers/activations.h"

namespace accel {

/// Keys of config.json by option.
struct HfSizeKeys {
  const char* num_layers = "num_hidden_layers";
  const char* num_heads = "num_attention_heads";
  const char* hidden_size = "hidden_size";
  const char* intermediate_size = "intermediate_size";
  const char* activation = "hidden_act";
  const char* norm_eps = "layer_norm_eps";  ///< null: no such key
  /// The default of intermediate_size as a multiple of hidden_size; 0: none.
  int64_t intermediate_factor = 0;
};

/// Options missing in the folder keep their value.
template <class Options>
void read_hf_sizes(HfConfig& config, const HfSizeKeys& keys, Options& options) {
  options.num_layers = config.integer(keys.num_layers);
  options.num_heads = config.integer(keys.num_heads);
  options.hidden_size = config.integer(keys.hidden_size);
  const int64_t usual = keys.intermediate_factor * options.hidden_size;
  options.intermediate_size = {keys.intermediate_factor > 0
                                   ? config.integer(keys.intermediate_size, usual)
                                   : config.integer(keys.intermediate_size)};
  options.activation = activation_in(config, keys.activation, options.activation);
  if (keys.norm_eps) options.norm_eps = config.number(keys.norm_eps, options.norm_eps);
}

/// `intermediate_size` is the model's resolved value; it may be auto in `options`.
template <class Options>
void write_hf_sizes(const Options& options, int64_t intermediate_size, const HfSizeKeys& keys,
                    nlohmann::json& config) {
  config[keys.num_layers] = options.num_layers;
  config[keys.num_heads] = options.num_heads;
  config[keys.hidden_size] = options.hidden_size;
  config[keys.intermediate_size] = intermediate_size;
  config[keys.activation] = config_name(options.activation);
  if (keys.norm_eps) config[keys.norm_eps] = options.norm_eps;
}

}  // namespace accel
