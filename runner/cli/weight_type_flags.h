// `--dtype` and `--quantization` of generate, chat, evaluate and predict.
#pragma once

#include <cstdint>
#include <string>

#include "infer/weight_types.h"

namespace CLI {
class App;
}

namespace accel {

struct PlacementFlags;

struct WeightTypeFlags {
  std::string dtype;         ///< "": as loaded
  std::string quantization;  ///< a type, or a section of a recipe; "": none

  bool is_set() const { return !dtype.empty() || !quantization.empty(); }
};

void add_weight_type_flags(CLI::App& verb, WeightTypeFlags& to);

/// Throws RecipeError for an invalid section, and Error (kRecipe) for flags that do not go with
/// `placement`.
WeightTypes weight_types(const WeightTypeFlags& flags, const PlacementFlags& placement);

/// Throws Error (kRecipe) for flags with `--mesh`.
void refuse_weight_types_on_mesh(const WeightTypeFlags& flags);

/// Prints types and bytes of the weights on standard error, if `types` are set: `quantized` of the
/// layers have been.
void print_weight_types(Model& model, const WeightTypes& types, int64_t quantized);

}  // namespace accel
