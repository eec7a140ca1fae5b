// Low-rank adapters: a model whose weights stay as they are, but for small updates beside them.
#pragma once

#include "core/node.h"
#include "models/lora_options.h"
#include "runner/formats/hf_weights.h"

namespace accel {

class Model;

/// What add_lora() has to know of the model's kind.
struct LoraPlace {
  HfNames names;
  bool generates;  ///< then the head is not trained unless it is asked for
  Node section;    ///< as the recipe has it: where problems are reported
};

/// Gives the linear layers that match `targets` an adapter, reads its weights where `lora` names a
/// folder, and takes all other parameters but those of `also` out of training. Throws RecipeError
/// for patterns that match nothing, DataError for weights that do not fit.
void add_lora(Model& model, const LoraOptions& lora, const LoraPlace& place);

/// `also` as patterns of parameters: what is given, or the heads of a model that does not generate.
std::vector<std::string> also_trained(const LoraOptions& lora, const HfNames& names,
                                      bool generates);

}  // namespace accel
