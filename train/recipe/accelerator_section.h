// `accelerator` of a recipe: processes, machines, device, precision.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/schema.h"
#include "kernels/choice.h"
#include "parallel/pipeline/schedule.h"
#include "train/recipe/mixed_precision.h"
#include "train/recipe/recipe_values.h"

namespace accel {

/// Order of gradient sums over ranks.
enum class Reduction { kBucketed, kCanonical };
template <>
struct EnumNames<Reduction> {
  static constexpr std::pair<Reduction, const char*> kValues[] = {
      {Reduction::kBucketed, "bucketed"}, {Reduction::kCanonical, "canonical"}};
};

/// Compression of gradients in the all-reduce; Accelerate's names.
enum class CommHook { kNo, kFp16, kBf16, kPowerSgd };
template <>
struct EnumNames<CommHook> {
  static constexpr std::pair<CommHook, const char*> kValues[] = {
      {CommHook::kNo, "no"},
      {CommHook::kFp16, "fp16"},
      {CommHook::kBf16, "bf16"},
      {CommHook::kPowerSgd, "power_sgd"}};
};

/// Debug checks with a cost in speed.
enum class DebugMode { kNo, kCollectives };
template <>
struct EnumNames<DebugMode> {
  static constexpr std::pair<DebugMode, const char*> kValues[] = {
      {DebugMode::kNo, "no"}, {DebugMode::kCollectives, "collectives"}};
};

/// PowerSGD gradient compression; the defaults are PyTorch's.
struct PowerSgdSection {
  int64_t rank = 1;
  Duration start = {1000, Duration::Unit::kSteps};
  double min_compression_rate = 2;
  bool operator==(const PowerSgdSection&) const = default;
  static Schema<PowerSgdSection> schema();
};

/// Distributed data parallel training: gradient and buffer synchronization.
struct DdpSection {
  int64_t bucket_cap_mb = 25;
  bool broadcast_buffers = true;
  CommHook comm_hook = CommHook::kNo;
  PowerSgdSection power_sgd;
  static Schema<DdpSection> schema();
};

/// Local SGD: ranks that synchronize weights periodically.
struct LocalSgdSection {
  std::optional<Duration> every;
  static Schema<LocalSgdSection> schema();
};

/// Type of parameters or gradients in a collective.
enum class FsdpDtype { kFp32, kBf16, kFp16 };
template <>
struct EnumNames<FsdpDtype> {
  static constexpr std::pair<FsdpDtype, const char*> kValues[] = {
      {FsdpDtype::kFp32, "fp32"}, {FsdpDtype::kBf16, "bf16"}, {FsdpDtype::kFp16, "fp16"}};
};

/// How the ranks of `parallelism.cp` see each other's keys and values.
enum class ContextStrategy { kRing, kAllGather };
template <>
struct EnumNames<ContextStrategy> {
  static constexpr std::pair<ContextStrategy, const char*> kValues[] = {
      {ContextStrategy::kRing, "ring"}, {ContextStrategy::kAllGather, "allgather"}};
};

/// Sizes of the mesh of ranks, named as Accelerate's ParallelismConfig.
struct ParallelismSection {
  Auto<int64_t> dp_replicate;
  Auto<int64_t> dp_shard;
  int64_t pp = 1;
  int64_t tp = 1;
  bool sequence_parallel = false;
  int64_t ep = 1;
  int64_t cp = 1;
  ContextStrategy cp_comm_strategy = ContextStrategy::kAllGather;
  int64_t sp = 1;
  static Schema<ParallelismSection> schema();
};

/// Pipeline schedules, named as their papers and Megatron-LM do.
template <>
struct EnumNames<PipelineKind> {
  static constexpr std::pair<PipelineKind, const char*> kValues[] = {
      {PipelineKind::kGpipe, "gpipe"},
      {PipelineKind::k1F1B, "1f1b"},
      {PipelineKind::kInterleaved1F1B, "interleaved_1f1b"},
      {PipelineKind::kZbH1, "zbh1"},
      {PipelineKind::kZbV, "zbv"}};
};

/// How the ranks of `parallelism.pp` run the stages of a model.
struct PipelineSection {
  PipelineKind schedule = PipelineKind::k1F1B;
  Auto<int64_t> stages_per_rank;
  std::vector<int64_t> blocks;
  static Schema<PipelineSection> schema();

  /// `stages_per_rank`, or that of the schedule.
  int64_t stages_of_rank() const;
};

/// Checkpoints of sharded training, by the names of Accelerate.
enum class StateDictType { kSharded, kFull };

template <>
struct EnumNames<StateDictType> {
  static constexpr std::pair<StateDictType, const char*> kValues[] = {
      {StateDictType::kSharded, "sharded"}, {StateDictType::kFull, "full"}};
};

/// Where sharded training state is while it is not used.
enum class Offload { kNone, kCpu, kDisk };

template <>
struct EnumNames<Offload> {
  static constexpr std::pair<Offload, const char*> kValues[] = {
      {Offload::kNone, "none"}, {Offload::kCpu, "cpu"}, {Offload::kDisk, "disk"}};
};

/// Fully sharded data parallel training.
struct FsdpSection {
  int64_t stage = 0;
  Auto<bool> reshard_after_forward;
  Auto<bool> sync_each_batch;
  Auto<FsdpDtype> param_dtype;
  FsdpDtype reduce_dtype = FsdpDtype::kFp32;
  int64_t min_num_params = 0;
  std::vector<std::string> ignored;
  StateDictType state_dict = StateDictType::kSharded;
  Offload offload = Offload::kNone;
  Auto<std::string> offload_path;
  static Schema<FsdpSection> schema();

  /// `param_dtype`, or the type of mixed precision.
  FsdpDtype param_dtype_under(MixedPrecision precision) const;
};

struct AcceleratorSection {
  DistributedType distributed_type = DistributedType::kAuto;
  Auto<int64_t> num_processes;
  int64_t num_machines = 1;
  int64_t machine_rank = 0;
  std::string main_process_ip;
  Auto<int64_t> main_process_port;
  Auto<int64_t> min_machines;
  int64_t max_restarts = 0;
  Duration monitor_interval = {0.2, Duration::Unit::kSeconds};
  Duration timeout = {600, Duration::Unit::kSeconds};
  Duration join_timeout = {120, Duration::Unit::kSeconds};
  CpuBackend cpu_backend = CpuBackend::kAuto;
  Reduction reduction = Reduction::kBucketed;
  DdpSection ddp;
  LocalSgdSection local_sgd;
  ParallelismSection parallelism;
  PipelineSection pipeline;
  FsdpSection fsdp;
  std::optional<ByteSize> max_memory;  ///< of frozen weights; none: all are in memory
  bool sync_batch_norm = false;
  DebugMode debug = DebugMode::kNo;
  MixedPrecision mixed_precision = MixedPrecision::kNo;
  ScalerOptions grad_scaler;
  Fp8Section fp8;
  DeviceChoice device = DeviceChoice::kAuto;
  std::string gpu_ids = "all";
  Auto<int64_t> num_cpu_threads_per_process;
  Kernels kernels = Kernels::kFused;
  MklInstructions mkl_instructions = MklInstructions::kAuto;
  Auto<bool> tf32;  ///< auto: PyTorch's defaults
  Auto<bool> cuda_graph = {false};
  static Schema<AcceleratorSection> schema();

  /// The device by `device` and `distributed_type`.
  DeviceChoice wanted_device() const;
};

}  // namespace accel
