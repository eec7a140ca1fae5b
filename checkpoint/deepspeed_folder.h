// Reader of checkpoints of DeepSpeed: ZeRO partitions of weights and optimizer state.
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

struct DeepSpeedState {
  /// Buffers, frozen parameters in their type, and the float32 master weights of trained ones;
  /// shared ones under each name. Views of the mapped files where a partition has all of a tensor.
  std::vector<NamedArray> model;
  /// The state_dict of the optimizer, with parameters by name; null where the folder has none.
  std::optional<Value> optimizer;
  std::optional<Value> scheduler;  ///< of the scheduler that DeepSpeed steps
  std::set<std::string> files;     ///< the entries of `folder` read
};

/// Reads what DeepSpeed's save_checkpoint() has written at ZeRO stage 0 to 3 with any number of
/// ranks, from the first of these that has it: the folder that `latest` names, Accelerate's
/// `pytorch_model` (of engine `number`), or the folder itself. Null for another folder. Throws
/// CheckpointError, also for experts and for tensor and pipeline parallelism.
std::optional<DeepSpeedState> read_deepspeed_folder(Files& files, const std::string& folder,
                                                    const std::map<std::string, DirEntry>& entries,
                                                    size_t number);

}  // namespace accel
