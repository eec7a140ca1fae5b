// All that a run needs to go on as if it had never stopped.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/batch.h"
#include "core/optimizer.h"
#include "runner/checkpoint/torch_schedule.h"

namespace accel {

/// How far a run is. Everything is counted at optimizer boundaries.
struct Progress {
  int64_t step = 0;           ///< optimizer steps done
  int64_t epoch = 0;          ///< whole passes over the data done
  int64_t step_in_epoch = 0;  ///< optimizer steps done in this pass
  int64_t samples = 0;        ///< consumed since the start, over all ranks
  int64_t tokens = 0;

  bool operator==(const Progress&) const = default;
};

/// What a folder that Accelerate wrote tells besides the state. It counts no steps.
struct AccelerateNotes {
  int64_t processes = 1;           ///< that wrote it: each leaves its random states
  std::optional<int64_t> updates;  ///< by the optimizer's own count, where it keeps one
  std::optional<TorchSchedule> schedule;
  std::vector<std::string> absent;    ///< files that a run needs and that are not there
  std::vector<std::string> not_used;  ///< files that are there
  std::vector<std::string> frozen;    ///< parameters with a state, which are trained no more
};

struct TrainState {
  Progress progress;
  uint64_t seed = 0;

  /// Parameters and persistent buffers in the model's order. Tied ones may come under every name;
  /// a file holds one of them and loading gives all names back, sharing memory. "critic/fc.weight"
  /// belongs to a further model 'critic', which has a file of its own.
  std::vector<NamedTensor> model;
  OptimizerState optimizer;
  std::vector<double> base_lrs;  ///< per parameter group
  std::vector<double> lrs;       ///< per parameter group, of the last step
  StateDict schedule;
  std::optional<StateDict> scaler;     ///< numbers named as PyTorch's GradScaler names them
  at::Tensor rng;                      ///< the CPU generator's state, uint8 [5056]
  std::vector<at::Tensor> other_rngs;  ///< those of ranks 1, 2, ...
  /// By rank the states of the generators of all GPUs it sees, uint8 [GPUs, bytes]; empty where
  /// ranks compute on the CPU.
  std::vector<at::Tensor> device_rngs;

  /// Whatever else is stateful, by name: "callbacks/ema", "best", "trackers".
  std::map<std::string, StateDict> parts;
  /// What a bit-exact resume depends on: versions, threads, data fingerprint, recipe hash.
  std::map<std::string, std::string> facts;
  /// Of the last evaluation: what KeepPolicy::by picks from.
  std::map<std::string, double> metrics;
  std::string recipe;  ///< resolved, as YAML

  /// Of each optimizer how many of `optimizer`'s groups are its: a file each. Empty: one has all.
  /// Not read back.
  std::vector<size_t> optimizers;
  /// The updates at which curves of the schedule begin, the first at 0, and where the last ends.
  /// For scheduler.bin only: not read back.
  std::vector<int64_t> curves;
  /// Optimizer updates done: steps but those that fp16 skipped. What scheduler.bin counts; not
  /// read back, as `parts` has it too.
  std::optional<int64_t> updates;
  std::optional<AccelerateNotes> accelerate;  ///< none in a checkpoint of ours
};

}  // namespace accel
