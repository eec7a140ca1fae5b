// Reader of checkpoints and model folders of Accelerate and transformers, in every layout.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "formats/tensors/pickle.h"
#include "formats/tensors/safetensors.h"

namespace accel {

struct Weights {
  std::vector<NamedArray> tensors;
  std::set<std::string> files;  ///< weight files and index files read
};

/// Reads a model's weights from the first of these that exists:
///   pytorch_model/ or the folder that `latest` names, or the folder itself: DeepSpeed's
///   partitions; model.safetensors, pytorch_model.bin, or their shards with an index;
///   pytorch_model_fsdp.bin (FSDP's FULL_STATE_DICT);
///   pytorch_model_fsdp_0/ (SHARDED_STATE_DICT), or the folder itself: a distributed checkpoint.
/// Tied weights have the names of the file: one or all. Throws CheckpointError, also for a folder
/// without weights.
Weights read_weights(Files& files, const std::string& folder);

/// The state_dicts that save_state() has written.
struct AccelerateFolder {
  std::vector<NamedArray> model;
  /// From model_1.safetensors and so on, or the other layouts with that number.
  std::vector<std::vector<NamedArray>> further_models;
  /// From optimizer.bin or optimizer_0/, and those of further optimizers. Parameters have ids, or
  /// names where FSDP has written it.
  std::vector<Value> optimizers;
  std::vector<Value> schedulers;
  std::optional<Value> scaler;
  std::map<int, Value> random_states;  ///< by rank
  std::set<std::string> files;         ///< all files read
  /// Per further model, its subset of `files`.
  std::vector<std::set<std::string>> further_files;
};

/// Skips the files in `without`. Throws CheckpointError.
AccelerateFolder read_accelerate_folder(Files& files, const std::string& folder,
                                        const std::set<std::string>& without = {});

}  // namespace accel
