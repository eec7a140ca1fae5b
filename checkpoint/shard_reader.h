// Reads sharded checkpoints, and regions of the tensors of any checkpoint.
#pragma once

#include "checkpoint/folder_reader.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_files.h"
#include "checkpoint/train_state.h"

namespace accel {

/// Whether the manifest has shards.
bool is_sharded(const Manifest& manifest);

/// Each reads whole tensors or, with `region_of`, the regions it gives. Throws CheckpointError.
void read_model_shards(const FolderReader& reader, const Manifest& manifest,
                       const RegionOf& region_of, TrainState& state);
void read_optimizer_shards(const FolderReader& reader, const Manifest& manifest,
                           const RegionOf& region_of, TrainState& state);
/// Tensors of callbacks: "parts/callbacks/ema/fc.weight".
void read_section_shards(const FolderReader& reader, const Manifest& manifest,
                         const RegionOf& region_of, TrainState& state);

/// Narrows whole tensors to the regions to read, and accesses their bytes. `region_of` may be null.
/// Throws CheckpointError.
void take_regions(const FolderReader& reader, const RegionOf& region_of, TrainState& state);

}  // namespace accel
