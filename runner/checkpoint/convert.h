// Checkpoints and models from one layout to another.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runner/checkpoint/files.h"
#include "runner/checkpoint/folder_writer.h"
#include "runner/formats/weight_shards.h"

namespace accel {

enum class WeightLayout {
  kSafetensors,  ///< the weights alone: model.safetensors, or shards with an index
  kTorch,        ///< the weights alone: pytorch_model.bin, or shards with an index
  kAccelerate,   ///< all that save_state() writes: weights as kSafetensors in one file
  kDistributed   ///< pytorch_model_fsdp_0/ and optimizer_0/, as FSDP's SHARDED_STATE_DICT
};

struct ConvertOptions {
  WeightLayout to = WeightLayout::kSafetensors;
  uint64_t max_shard_bytes = UINT64_MAX;  ///< of the weights alone
};

/// Makes the folder `target`, which must not be there yet, of what `write` puts into the new folder
/// it is given: whole or not at all. Throws IoError, and what `write` throws.
void publish_folder(Files& files, const std::string& target,
                    const std::function<void(const std::string& staged)>& write);

/// Writes weights into one file, or into shards and their index. No two may share memory.
void write_weights(FolderWriter& writer, const std::vector<NamedArray>& tensors,
                   WeightFormat format, uint64_t max_shard_bytes);

/// Reads the checkpoint or model folder `source`, ours verified, and writes it to the folder
/// `target`, which must not be there yet and comes whole or not at all. Returns one line on each
/// thing that could not go along. Throws CheckpointError for a source that cannot be read, IoError
/// for a target that cannot be written.
std::vector<std::string> convert_checkpoint(Files& files, const std::string& source,
                                            const std::string& target,
                                            const ConvertOptions& options);

}  // namespace accel
