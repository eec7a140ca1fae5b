// Conversion of checkpoints and models between layouts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/folder_writer.h"
#include "core/base/files.h"
#include "formats/tensors/weight_shards.h"

namespace accel {

enum class WeightLayout {
  kSafetensors,  ///< weights only: model.safetensors, or shards with an index
  kTorch,        ///< weights only: pytorch_model.bin, or shards with an index
  kAccelerate,   ///< the files of save_state(): weights as kSafetensors in one file
  kDistributed   ///< pytorch_model_fsdp_0/ and optimizer_0/: FSDP's SHARDED_STATE_DICT
};

struct ConvertOptions {
  WeightLayout to = WeightLayout::kSafetensors;
  uint64_t max_shard_bytes = UINT64_MAX;  ///< for weights only
};

/// Creates the new folder `target` atomically with the files that `write` puts into a staging
/// folder. Throws IoError and the exceptions of `write`.
void publish_folder(Files& files, const std::string& target,
                    const std::function<void(const std::string& staged)>& write);

/// Writes weights into one file, or into shards with an index. No two may share memory.
void write_weights(FolderWriter& writer, const std::vector<NamedArray>& tensors,
                   WeightFormat format, uint64_t max_shard_bytes);

/// Converts the checkpoint or model folder `source`, verified where it has a manifest, to the new
/// folder `target`, atomically. Returns a line per item that was not converted. Throws
/// CheckpointError for an unreadable source, IoError for an unwritable target.
std::vector<std::string> convert_checkpoint(Files& files, const std::string& source,
                                            const std::string& target,
                                            const ConvertOptions& options);

}  // namespace accel
