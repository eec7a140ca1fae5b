// Folders of an exported model or adapter, as transformers and PEFT read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "formats/tensors/safetensors.h"
#include "formats/tensors/tensor_source.h"
#include "runner/cli/export/export_source.h"

namespace accel {

/// Writes config.json, the weights in files of at most `max_shard_bytes`, and the tokenizer's
/// files.
void write_export(Files& files, const std::string& folder, const ExportSource& source,
                  const std::vector<TensorSource>& weights, uint64_t max_shard_bytes);

/// Writes the adapter without the base model.
void write_adapter_export(Files& files, const std::string& folder, const ExportSource& source,
                          const std::vector<NamedArray>& weights);

}  // namespace accel
