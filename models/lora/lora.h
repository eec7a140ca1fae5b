// Low-rank adapters (LoRA) of models.
#pragma once

#include "core/recipe/node.h"
#include "models/hf/hf_weights.h"
#include "models/lora/lora_options.h"

namespace accel {

class Model;

/// Properties of the model's family.
struct LoraPlace {
  HfNames names;
  Node section;  ///< the recipe's section, for errors
};

/// Adds adapters to the layers that match `target_modules`, loads their weights if `lora` names a
/// folder, and freezes all other parameters except `modules_to_save`. Patterns must end with the
/// name of an embedding or of `lm_head` to adapt it. Throws RecipeError for patterns without a
/// match, DataError for mismatched weights.
void add_lora(Model& model, const LoraOptions& lora, const LoraPlace& place);

/// `modules_to_save` as parameter patterns; by default the heads except that of a language model.
std::vector<std::string> also_trained(const LoraOptions& lora, const HfNames& names);

/// Whether AdaptersOff applies to the model's adapters; false without any.
bool has_adapter_switch(Model& model);

}  // namespace accel
