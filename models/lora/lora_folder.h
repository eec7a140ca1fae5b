// PEFT adapter folders: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "models/hf/hf_config.h"
#include "models/hf/hf_weights.h"
#include "models/lora/lora_options.h"

namespace accel {

inline constexpr auto kAdapterConfig = "adapter_config.json";
inline constexpr auto kAdapterWeights = "adapter_model.safetensors";
/// PEFT's prefix of parameter names.
inline constexpr auto kAdapterPrefix = "base_model.model.";
/// Suffixes of the two matrices of a layer's adapter.
inline constexpr auto kLoraA = ".lora_A.weight";
inline constexpr auto kLoraB = ".lora_B.weight";

/// Those of an embedding.
inline constexpr auto kLoraEmbeddingA = ".lora_embedding_A";
inline constexpr auto kLoraEmbeddingB = ".lora_embedding_B";
/// The layer of a language model's head.
inline constexpr auto kLanguageHead = "lm_head";

inline constexpr auto kLoraBias = ".lora_B.bias";
inline constexpr auto kLoraMagnitude = ".lora_magnitude_vector";

/// Whether a parameter belongs to an adapter.
bool is_of_adapter(const std::string& name);

/// Whether `lora.bias` trains this parameter of the base model. `adapted`: layers with an adapter.
bool is_trained_bias(const std::string& name, const LoraOptions& lora,
                     const std::set<std::string>& adapted);

/// The layers with an adapter among a model's weights.
std::set<std::string> adapted_layers(const std::vector<NamedArray>& weights);

/// Throws DataError.
HfConfig read_adapter_config(const std::string& folder);

/// The weights by the model's names. Throws DataError.
HfWeights read_adapter_weights(const std::string& folder);

/// Names of the weights of the base model that PEFT stored beside the adapters of embeddings and
/// heads. Throws DataError.
std::set<std::string> stored_base_weights(const std::string& folder, const HfNames& names);

struct AdapterParts {
  std::vector<std::string> targets;      ///< layers with an adapter
  std::vector<std::string> others;       ///< other weights in the folder, without biases by `bias`
  std::map<std::string, int64_t> ranks;  ///< by layer
};

/// The layers and weights of an adapter folder, by the model's names. Throws DataError.
AdapterParts read_adapter_parts(const std::string& folder, const HfNames& names);

/// `given` completed by the options of the PEFT adapter that it names; unchanged without one.
/// `node` is its section, at which errors and conflicts are reported.
LoraOptions with_adapter(const LoraOptions& given, const HfNames& names, const Node& node,
                         Reading& reading);

/// The adapter's weights among a model's, by the model's names.
std::vector<NamedArray> adapter_weights(const std::vector<NamedArray>& weights,
                                        const LoraOptions& lora);

/// adapter_config.json of an adapter with these weights. `base` is the folder of the base model, or
/// "". Throws Error (kRecipe) for an adapter that PEFT would apply to other weights.
nlohmann::json adapter_config(const LoraOptions& lora, const std::vector<NamedArray>& adapter,
                              const HfNames& names, const std::string& base);

/// The weights of kAdapterWeights by PEFT's names; a trained embedding that is tied to the head is
/// stored for both.
std::vector<NamedArray> stored_adapter(const std::vector<NamedArray>& adapter,
                                       const HfNames& names);

}  // namespace accel
