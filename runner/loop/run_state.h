// How far a run is, and its way into and out of a checkpoint.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runner/checkpoint/train_state.h"
#include "runner/job/job.h"
#include "runner/track/tracker_thread.h"

namespace accel {

/// What the loop itself knows besides the job's parts.
struct RunState {
  Progress progress;
  int64_t updates = 0;  ///< optimizer updates: steps less those that fp16 skipped
  double seconds = 0;   ///< of all lives of the run
  double last_loss = 0;
  std::map<std::string, double> evaluation;  ///< the last one's results
  int64_t evaluated_step = -1;
  bool eval_pending = false;   ///< one is due at this step, but there was no time for it
  std::optional<double> best;  ///< of checkpoint.keep.by
  int64_t best_step = -1;
};

/// The part of a checkpoint that keeps what the loop knows.
constexpr auto kRunPart = "run";
/// The part that keeps what the training data was like, and the text in it that shape_text() made.
constexpr auto kDataPart = "data";
constexpr auto kDataShape = "shape";

/// The part of a checkpoint that keeps Task::state(), also in a file that Accelerate reads.
constexpr auto kTaskPart = "custom/0";

/// "callbacks/ema", and "callbacks/ema.2" for a second one.
std::string callback_part(const std::vector<Ref<Callback>>& callbacks, size_t index);

/// Copies a checkpoint's weights into a model's tensors. Throws CheckpointError when the names or
/// shapes are not the same.
void copy_weights(const std::vector<NamedTensor>& parameters,
                  const std::vector<NamedTensor>& buffers, const std::vector<NamedTensor>& from);

/// The parameter that is a language model's head as well; empty where there is none.
std::string tied_head(const Job& job);

/// What a bit-exact resume depends on besides the state.
std::map<std::string, std::string> run_facts(const Job& job);

/// Before the name of a fact that tells a plugin's version and digest.
inline const std::string kPluginFact = "plugin ";
/// The plugins that the job's components may come from.
std::map<std::string, std::string> plugin_facts(const std::vector<PluginIdentity>& plugins);

/// Shares the job's tensors: write it before the next step.
TrainState capture(const Job& job, const RunState& run, const TrackerIds& trackers);

/// Puts everything back, the generator last. Throws CheckpointError when a part is missing, is not
/// known or does not fit; the job is then of no use.
RunState restore(Job& job, const TrainState& state);

/// What messages and checkpoints call each tracker of a recipe: its type, and "csv.2" for a second
/// one.
std::vector<std::string> tracker_names(const std::vector<Ref<Tracker>>& trackers);

/// The ids that the checkpoint keeps of the tracker `name`.
std::map<std::string, std::string> tracker_ids(const TrainState& state, const std::string& name);

}  // namespace accel
