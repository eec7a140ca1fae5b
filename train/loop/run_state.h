// The loop's own state, and the conversion of a job's state to and from a checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/train_state.h"
#include "track/record_rewind.h"
#include "track/tracker_thread.h"
#include "train/job/job.h"

namespace accel {

/// Sums over the steps since the last log line. A checkpoint inside an interval has them, so that
/// the means of a resumed run are those of the straight one.
struct LogInterval {
  int64_t steps = 0;
  double loss = 0;
  double grad_norm = 0;
  /// Logged by the task: the sum and the number of steps.
  std::map<std::string, std::pair<double, int64_t>> logged = {};
};

/// State of the loop besides the job's components.
struct RunState {
  Progress progress;
  int64_t updates = 0;  ///< optimizer updates: steps without those skipped by fp16
  double seconds = 0;   ///< over all processes of the run
  double last_loss = 0;
  LogInterval interval;
  std::map<std::string, double> evaluation;  ///< results of the last one
  int64_t evaluated_step = -1;
  bool eval_pending = false;   ///< interrupted before this step's evaluation
  std::optional<double> best;  ///< of checkpoint.keep.metric
  int64_t best_step = -1;
  /// Of the epoch's RandomSampler, without `compat.use_seedable_sampler`.
  std::optional<uint64_t> sampler_seed;
};

/// The checkpoint section of the loop's state.
constexpr auto kRunSection = "run";
/// The section of the record's length and checksum, which differ between equal runs: events have
/// times.
constexpr auto kRecordSection = "record";
/// The section of the scales of fp8's delayed scaling.
constexpr auto kFp8Section = "fp8";
/// The section of the data schema, and the key of its shape_text().
constexpr auto kDataSection = "data";
constexpr auto kDataShape = "shape";
/// The key of the values that datasets fitted to the training samples.
constexpr auto kFittedValues = "fitted";

/// The section of Task::state(), which Accelerate reads as well.
constexpr auto kTaskSection = "custom/0";

/// "callbacks/ema", and "callbacks/ema.2" for a second one.
std::string callback_section(const std::vector<Ref<Callback>>& callbacks, size_t index);

/// The parameter tied to the head of a language model or of an encoder; empty when there is none.
std::string tied_head(const Job& job);

/// The environment that a bit-exact resume depends on.
std::map<std::string, std::string> run_provenance(const Job& job);

/// Provenance key of the number of ranks of tensor parallelism; absent: 1.
constexpr auto kTensorRanksKey = "tensor_ranks";
constexpr auto kExpertRanksKey = "expert_ranks";
constexpr auto kContextRanksKey = "context_ranks";

/// Prefix of a provenance key with a plugin's version and digest.
inline const std::string kPluginKey = "plugin ";
/// Version and digest of each plugin of the recipe.
std::map<std::string, std::string> plugin_provenance(const std::vector<PluginIdentity>& plugins);

/// Shares the job's tensors, of sharded parameters this rank's shares: write it before the next
/// step.
TrainState capture(const Job& job, const RunState& run, const TrackerIds& trackers);

/// Restores everything, the random generator last, without communication: call refresh_weights() of
/// the strategies when all ranks have. Throws CheckpointError when a section is
/// missing, unknown or does not fit; the job is then unusable.
RunState restore(Job& job, const TrainState& whole);

/// Adds the length and checksum of the record to a checkpoint.
void save_record_mark(const RecordMark& mark, TrainState& state);
/// Those of the checkpoint; null in checkpoints of 0.1.0.
std::optional<RecordMark> record_mark(const TrainState& state);

/// The names of a recipe's trackers in messages and checkpoints: the type, and "csv.2" for a second
/// one.
std::vector<std::string> tracker_names(const std::vector<Ref<Tracker>>& trackers);

/// The checkpoint's run ids of the tracker `name`.
std::map<std::string, std::string> tracker_ids(const TrainState& state, const std::string& name);

}  // namespace accel
