// The config.json and generation_config.json of an exported model.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runner/cli/export/export_source.h"

namespace accel {

/// The options, without `tie_embeddings` where a merged adapter untied the head.
Node untied_options(const ExportSource& source, const WeightShapes& shapes);

/// Of the model with `options` and weights of these shapes. Throws Error (kRecipe) where
/// transformers has no such model.
nlohmann::json exported_config(const ExportSource& source, const Node& options,
                               const WeightShapes& shapes);

nlohmann::json exported_generation_config(const nlohmann::json& config);

}  // namespace accel
