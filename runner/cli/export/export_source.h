// The model of a checkpoint that is exported, and the origin of its files.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/recipe/node.h"
#include "models/hf/hf_family.h"
#include "models/lora/lora_options.h"
#include "models/quantized/quantization_options.h"

namespace accel {

struct TrainState;

struct ExportSource {
  const HfFamily::Table* family;  ///< null: an adapter on a model that transformers lacks
  Node options;
  std::optional<LoraOptions> lora;
  QuantizationOptions quantization;
  std::string base;                  ///< the folder of the initial weights; none: ""
  std::set<std::string> tokenizers;  ///< files and folders in the recipe's data
  Node data;                         ///< the recipe's section of that name
  std::vector<std::string> labels;   ///< names of the classes
  std::string task;                  ///< "" for an unknown one
  std::string problem_type;          ///< of the task; "" for tasks that transformers does not name
  bool has_trained_only = false;     ///< the frozen weights stayed in the folder `base`
};

/// Of a checkpoint's state. Throws Error (kRecipe) for a model that transformers lacks.
ExportSource export_source(const TrainState& state);

/// The files of tokenizers, and generation_config.json, by name.
std::map<std::string, std::string> files_to_copy(const ExportSource& source);

}  // namespace accel
