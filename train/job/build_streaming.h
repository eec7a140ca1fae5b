// `accelerator.max_memory`: frozen weights that are streamed from the model's folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "parallel/mesh.h"
#include "train/job/job.h"

namespace accel {

class BlockInputs;

/// Whether frozen weights stay in the model's folder, so that checkpoints have the trained ones
/// only.
bool keeps_frozen_in_folder(const RecipeOptions& recipe);
/// The same of a recipe as text, such as that of a checkpoint.
bool keeps_frozen_in_folder(const Node& recipe);

/// Throws RecipeError for options that `max_memory` cannot be combined with.
void check_streaming(const RecipeOptions& recipe, const Node& resolved, const MeshSizes& sizes);

/// Gives memory to the trained weights of job.model, whose weights are in mapped files or deferred,
/// and streams the blocks that do not fit. Deferred ones of these stay so: FrozenStream::sources().
/// Throws RecipeError for frozen weights that cannot stay in the folder and for a limit that cannot
/// be kept. Does nothing without `max_memory`.
void build_frozen_stream(Job& job, bool is_estimate);

/// Checkpoints the streamed blocks; `inputs` stores their inputs; null: they stay in memory.
void recompute_streamed(const Job& job, const std::shared_ptr<BlockInputs>& inputs);

/// Bytes and places of the frozen weights of job.model.
struct FrozenMemory {
  int64_t elements = 0;
  int64_t blocks = 0;       ///< of the model
  int64_t block_bytes = 0;  ///< of frozen weights of all blocks
  int64_t other_bytes = 0;  ///< outside of blocks, and shapes and offsets of quantized weights
  int64_t slots = 0;        ///< blocks in memory
  int64_t resident_bytes = 0;

  bool is_streamed() const { return slots < blocks; }
  /// That are on the disk only.
  int64_t streamed_bytes() const { return block_bytes + other_bytes - resident_bytes; }
};
FrozenMemory frozen_memory(const Job& job);

/// For the first screen; "" without `max_memory`.
std::string streaming_summary(const Job& job);

}  // namespace accel
