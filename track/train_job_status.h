// The status of a TrainJob, which Kubeflow Trainer shows as status.trainerStatus.
#pragma once

#include <memory>

#include "core/api/tracker.h"
#include "core/base/environment.h"

namespace accel {

/// Progress of a run.
struct RunProgress {
  double fraction = -1;     ///< 0 to 1; negative: unknown
  double seconds_left = 0;  ///< 0: unknown
};

/// A Tracker that also reports progress.
class ProgressTracker {
 public:
  virtual ~ProgressTracker() = default;

  virtual void progress(const RunProgress& progress) = 0;
};

/// The name in messages and checkpoints.
constexpr auto kTrainJobStatusName = "kubeflow";

/// A tracker, also a RemoteTracker and a ProgressTracker, that sends percentage, remaining seconds
/// and metrics at most every five seconds, with the token of Kubeflow Trainer. Null where
/// KUBEFLOW_TRAINER_SERVER_URL is unset: in no TrainJob, or without the feature gate
/// TrainJobStatus. Throws Error (exit code 2) when KUBEFLOW_TRAINER_SERVER_TOKEN or _CA_CERT is
/// missing, or the token would be sent without TLS.
std::unique_ptr<Tracker> make_train_job_status(const EnvironmentLookup& lookup);

}  // namespace accel
