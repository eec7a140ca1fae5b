// The folders that Accelerate and Hugging Face's libraries leave, in every layout, as the values
// that their files hold.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runner/checkpoint/files.h"
#include "runner/formats/pickle.h"
#include "runner/formats/safetensors.h"

namespace accel {

struct Weights {
  std::vector<NamedArray> tensors;
  std::set<std::string> files;  ///< of the folder, that hold them or tell where they are
};

/// Of a model's weights, the files or the folder that hold them, by preference:
///   model.safetensors, pytorch_model.bin, or their shards with an index;
///   pytorch_model_fsdp.bin (FSDP's FULL_STATE_DICT);
///   pytorch_model_fsdp_0/ (SHARDED_STATE_DICT), or the folder itself: a distributed checkpoint.
/// Tied weights come under one name or all, as the file has them. Throws CheckpointError, also for
/// a folder that has none of them.
Weights read_weights(Files& files, const std::string& folder);

/// The parts that save_state() wrote, each the state_dict of its object.
struct AccelerateFolder {
  std::vector<NamedArray> model;
  /// Of model_1.safetensors and so on, or of what else a model's weights may be in with its number.
  std::vector<std::vector<NamedArray>> further_models;
  /// From optimizer.bin or optimizer_0/, and those of further optimizers. Parameters go by running
  /// number, or by name where FSDP wrote it.
  std::vector<Value> optimizers;
  std::vector<Value> schedulers;
  std::optional<Value> scaler;
  std::map<int, Value> random_states;  ///< by rank
  std::set<std::string> files;         ///< that all this is from
  /// Of each further model, those of `files` that it is from.
  std::vector<std::set<std::string>> further_files;
};

/// Reads all but the files named in `without`. Throws CheckpointError.
AccelerateFolder read_accelerate_folder(Files& files, const std::string& folder,
                                        const std::set<std::string>& without = {});

}  // namespace accel
