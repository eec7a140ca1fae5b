// Options that all models with Hugging Face folders have: `weights`, and of some `lora` and
// `quantization`.
#pragma once

#include <utility>

#include "core/recipe/registry.h"

namespace accel {

/// Options of a model that supports adapters.
template <class Options>
concept HasLora = requires(Options options) {
  {options.lora};
};

/// Options of a model whose linear layers may be quantized.
template <class Options>
concept HasQuantization = HasLora<Options> && requires(Options options) {
  {options.quantization};
};

/// Declares the FilePath option `weights` of a model, and `lora` and `quantization` if the model
/// has them.
template <class Options>
Schema<Options> with_weights(Schema<Options> schema) {
  if constexpr (HasLora<Options>) {
    std::move(schema)
        .field("lora", &Options::lora, "Train low-rank adapters and freeze the weights.")
        .hint_for({"peft", "peft_config", "lora_config"}, "true>{rank: 8}|{}");
  }
  if constexpr (HasQuantization<Options>) {
    std::move(schema)  // NOLINT(bugprone-use-after-move): field() adds in place
        .field("quantization", &Options::quantization,
               "Keep frozen linear weights in 4 or 8 bits, for adapters: QLoRA (Dettmers et al. "
               "2023). A quarter to an eighth of the memory, slower steps.")
        .hint_for({"quantization_config", "bnb_config", "bnb_quantization_config"});
  }
  return std::move(schema)  // NOLINT(bugprone-use-after-move): field() adds in place
      .field("weights", &Options::weights,
             "A Hugging Face folder to start from: its sizes and its weights.")
      .on_resume(Change::kFree)
      .hint_for({"model_name_or_path", "pretrained_model_name_or_path", "base_model"});
}

}  // namespace accel
