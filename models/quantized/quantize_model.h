// Quantized linear layers of a model.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/recipe/node.h"
#include "models/hf/hf_weights.h"
#include "models/quantized/quantization_options.h"

namespace accel {

class Model;

/// Whether a layer of the model is quantized.
bool has_quantized_weights(Model& model);

/// A model to build, and where its weights are.
struct QuantizedSource {
  std::function<std::unique_ptr<Model>()> build;  ///< with random weights
  std::string name;                               ///< of the model, for errors
  HfNames names;
  std::string folder;  ///< of transformers; "": the weights are random
  bool is_quantized;   ///< whether the folder has quantized weights, of `options.type`
  Node section;        ///< the recipe's, for errors
};

/// The model with quantized linear layers, which are frozen, except those that match
/// `skip_modules`, heads, routers, and experts, which transformers stacks; of a folder with
/// quantized weights, those that it has. At most one layer at a time has its weight in float32.
/// Throws RecipeError for a pattern without a match, and where no layer is left; DataError.
std::unique_ptr<Model> build_quantized(const QuantizationOptions& options,
                                       const QuantizedSource& source);

}  // namespace accel
