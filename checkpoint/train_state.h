// Training state for a bit-exact resume.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/torch_schedule.h"
#include "core/api/batch.h"
#include "core/api/optimizer.h"
#include "core/api/state_swapper.h"

namespace accel {

/// Progress of a run, at optimizer steps.
struct Progress {
  int64_t step = 0;           ///< optimizer steps done
  int64_t epoch = 0;          ///< completed passes over the data
  int64_t step_in_epoch = 0;  ///< optimizer steps done in this epoch
  int64_t samples = 0;        ///< consumed since the start, over all ranks
  int64_t tokens = 0;

  bool operator==(const Progress&) const = default;
};

/// Further content of a checkpoint of Accelerate, which has no step count.
struct AccelerateNotes {
  int64_t processes = 1;           ///< by the files of random states
  std::optional<int64_t> updates;  ///< by the optimizer's `step`, if any
  std::optional<TorchSchedule> schedule;
  std::vector<std::string> absent;    ///< missing files
  std::vector<std::string> not_used;  ///< files without effect
  std::vector<std::string> frozen;    ///< frozen parameters with optimizer state
  std::string wrapper;                ///< what DDP or torch.compile() put in front of all names
};

/// A box of a tensor.
struct TensorRegion {
  Shape offsets;
  Shape sizes;
};

/// A parameter of a sharded state.
struct ParameterShard {
  Shape whole;  ///< shape over all ranks
  /// Of this rank, whose rows follow each other in its tensor; all of it if not sharded.
  std::vector<TensorRegion> own;
  Shape sizes;             ///< of this rank's tensor
  bool sharded = true;     ///< false: every rank holds all of it
  bool is_written = true;  ///< by this rank; of equal shards one is
};

/// What a rank holds of a sharded state. State of the optimizer is divided by its placements. State
/// without a global shape, and tensors of callbacks under the name of a parameter, are divided as
/// the parameter where they have the shape of its shard. Rank 0 writes tensors of no parameter.
struct ShardLayout {
  int64_t rank = 0;
  int64_t ranks = 1;
  std::map<std::string, ParameterShard> parameters;
  /// State of the optimizer that is divided otherwise than its parameter, as row_var of adafactor,
  /// by "PARAMETER.SLOT".
  std::map<std::string, ParameterShard> slots = {};
  std::shared_ptr<StateSwapper> swapper = {};  ///< of tensors that are swapped out; may be null
};

struct StoredLayout;

struct TrainState {
  Progress progress;
  uint64_t seed = 0;

  /// Parameters and persistent buffers in the model's order. Tied ones may have all their names: a
  /// file has one tensor for them, and loading restores the names with shared memory.
  /// "critic/fc.weight" belongs to a further model 'critic' with a separate file.
  std::vector<Parameter> model;
  OptimizerState optimizer;
  std::vector<double> base_lrs;  ///< per parameter group
  std::vector<double> lrs;       ///< per parameter group, at the last step
  StateDict schedule;
  std::optional<StateDict> scaler;     ///< with the names of PyTorch's GradScaler
  at::Tensor rng;                      ///< CPU generator state of rank 0, uint8 [5056]
  std::vector<at::Tensor> other_rngs;  ///< of ranks 1, 2, ...
  /// Per rank, the generator states of its visible GPUs, uint8 [GPUs, bytes]; empty on the CPU.
  std::vector<at::Tensor> device_rngs;

  /// Sections of further state by name: "callbacks/ema", "best", "trackers".
  std::map<std::string, StateDict> sections;
  /// Provenance, to check a resume: versions, threads, data fingerprint, recipe hash.
  std::map<std::string, std::string> provenance;
  /// Results of the last evaluation, for KeepPolicy::metric.
  std::map<std::string, double> metrics;
  std::string recipe;  ///< resolved, as YAML

  /// Number of `optimizer`'s groups per torch.optim optimizer; empty: one optimizer. Not restored.
  std::vector<size_t> optimizers;
  /// Updates at which the schedule's phases start, the first at 0, and the end of the last one. For
  /// scheduler.bin; not restored.
  std::vector<int64_t> curves;
  /// Optimizer updates: steps without those skipped by fp16. For scheduler.bin; not restored, since
  /// `sections` has it.
  std::optional<int64_t> updates;
  std::optional<AccelerateNotes> accelerate;  ///< null with a manifest
  /// Of model and optimizer, in a state to save and in manifests; null: the model's own. States
  /// that were read have the model's own.
  std::shared_ptr<const StoredLayout> layout;
  /// Of a state to save with a file per rank; null: all tensors are whole. Not restored.
  std::shared_ptr<const ShardLayout> shards;
};

}  // namespace accel
