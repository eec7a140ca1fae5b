// A low-rank adapter and the model under it, taken apart or put together.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/lora_options.h"
#include "runner/checkpoint/folder_writer.h"

namespace accel {

/// The weights of a model that does without its adapter and computes the same.
std::vector<NamedArray> merged_weights(const std::vector<NamedArray>& weights,
                                       const LoraOptions& lora);

/// Writes what PEFT reads: the adapter alone.
void write_adapter(FolderWriter& writer, const std::vector<NamedArray>& adapter,
                   const nlohmann::json& config);

}  // namespace accel
