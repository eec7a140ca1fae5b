// Adapter folders of PEFT: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runner/formats/hf_config.h"
#include "runner/formats/hf_weights.h"

namespace accel {

struct LoraOptions;

inline constexpr auto kAdapterConfig = "adapter_config.json";
inline constexpr auto kAdapterWeights = "adapter_model.safetensors";
/// What PEFT puts before the names of a model.
inline constexpr auto kAdapterPrefix = "base_model.model.";
/// What follows a layer's name in those of its adapter's two matrices.
inline constexpr auto kLoraA = ".lora_A.weight";
inline constexpr auto kLoraB = ".lora_B.weight";

/// Throws DataError.
HfConfig read_adapter_config(const std::string& folder);

/// The weights under the names of the model. Throws DataError.
HfWeights read_adapter_weights(const std::string& folder);

struct AdapterParts {
  std::vector<std::string> targets;  ///< linear layers that have an adapter
  std::vector<std::string> others;   ///< weights that are in the folder besides
};

/// What the weights are of, in the names of the whole model. Throws DataError.
AdapterParts read_adapter_parts(const std::string& folder, const HfNames& names);

/// The adapter's weights among those of a model, in their names.
std::vector<NamedArray> adapter_weights(const std::vector<NamedArray>& weights,
                                        const LoraOptions& lora);

/// adapter_config.json of an adapter with these weights. `base` is the folder that the model under
/// it came from, "" for none.
nlohmann::json adapter_config(const LoraOptions& lora, const std::vector<NamedArray>& adapter,
                              const HfNames& names, const std::string& base);

}  // namespace accel
