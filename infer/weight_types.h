// Types of a loaded model's weights, for inference: conversion and quantization at load time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/recipe/node.h"
#include "infer/trained_model.h"
#include "models/quantized/quantization_options.h"

namespace accel {

struct WeightTypes {
  std::optional<ComputeDtype> dtype;  ///< none: as loaded
  QuantizationOptions quantization;
  Node section;  ///< that `quantization` was read from, for errors

  bool is_set() const { return dtype || quantization.is_on(); }
  std::optional<at::ScalarType> scalar_type() const;
};

/// Converts the weights of a model, one at a time, and frees each: linear layers to
/// `quantization`, the others to `dtype`, except codes and scales of quantized layers and the
/// weights of routers, which compute in float32. Values of quantized layers are rounded to `dtype`
/// first, as bitsandbytes rounds them. `resolved`: the model's options with its type. Throws Error
/// (kRecipe) for models that do not support it and for weights that are quantized in another way.
/// Returns the number of layers that it has quantized.
int64_t convert_weights(Model& model, const WeightTypes& types, const Node& resolved);

/// convert_weights() of a trained model, which then evaluates in `dtype`.
int64_t convert_weights(TrainedModel& trained, const WeightTypes& types);

}  // namespace accel
