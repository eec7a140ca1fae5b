// Quantized linear layers of a model.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/recipe/node.h"
#include "models/hf/hf_weights.h"
#include "models/quantized/quantization_options.h"

namespace accel {

class Model;

/// Whether a layer of the model is quantized.
bool has_quantized_weights(Model& model);

/// Quantizes the linear layers of a model, except those that match `skip_modules`, heads, routers,
/// and experts, which transformers stacks; each frees its weight. Values are rounded to `rounded`
/// first. Under SkipInit the layers have no values yet. Returns their number. Throws RecipeError,
/// with positions in `section`, for a pattern without a match and where no layer is left.
int64_t quantize_layers(Model& model, const QuantizationOptions& options, const HfNames& names,
                        const Node& section, std::optional<at::ScalarType> rounded = {});

/// A model to build, and where its weights are.
struct QuantizedSource {
  std::function<std::unique_ptr<Model>()> build;  ///< with random weights
  std::string name;                               ///< of the model, for errors
  HfNames names;
  std::string folder;  ///< of transformers; "": the weights are random
  bool is_quantized;   ///< whether the folder has quantized weights, of `options.type`
  Node section;        ///< the recipe's, for errors
};

/// The model with layers of quantize_layers(), which are frozen; of a folder with quantized
/// weights, those that it has. At most one layer at a time has its weight in float32. Throws
/// RecipeError, DataError.
std::unique_ptr<Model> build_quantized(const QuantizationOptions& options,
                                       const QuantizedSource& source);

}  // namespace accel
