// Hugging Face's model types, found by a folder's config.json or guessed from a model's name.
#pragma once

#include <string>
#include <vector>

namespace accel {

struct ModelFamily {
  std::string type;  ///< the `model_type`: "llama", "gemma2"; "" if unknown
  bool guessed = false;
};

/// Of a folder, or of the name of a model of the hub.
ModelFamily family_of(const std::string& model);

/// A value of the config.json of a folder, as text; "" without the folder or the key.
std::string value_in_folder(const std::string& folder, const std::string& key);

/// Of a builder of torchtune: "torchtune.models.llama3_2.lora_llama3_2_1b".
ModelFamily torchtune_family(const std::string& component);

/// The linear layers that PEFT adapts by default; empty if unknown.
std::vector<std::string> peft_targets(const std::string& model_type);

}  // namespace accel
