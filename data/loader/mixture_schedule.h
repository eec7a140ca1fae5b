// Weights of the datasets of a mixture that change over the steps of a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accel {

/// The weight of a dataset between two points of its schedule.
enum class MixtureCurve { kLinear, kStages };

struct WeightPoint {
  int64_t step = 0;
  double weight = 0;
};

/// The weight at a step: that of the first point before it, that of the last one behind it.
/// `points` are in ascending order of steps, one at least.
double weight_at(const std::vector<WeightPoint>& points, int64_t step, MixtureCurve curve);

struct MixtureSchedule {
  std::vector<std::vector<WeightPoint>> weights;  ///< of each dataset
  MixtureCurve curve = MixtureCurve::kLinear;
  int64_t batch = 1;  ///< samples of a step
  int64_t steps_per_epoch = 1;
  std::string identity;  ///< of the schedule as the recipe writes it, for fingerprints

  /// Shares of the datasets in the samples of a step.
  std::vector<double> shares(int64_t step) const;
  /// The steps of all points, ascending, each once.
  std::vector<int64_t> steps() const;
};

/// Which dataset each draw of a run takes, from the first one on: the one that is furthest behind
/// its share, summed over all draws so far. A dataset without weight is never taken.
class ScheduledTurns {
 public:
  /// `epoch_size`: draws of an epoch.
  ScheduledTurns(const MixtureSchedule& schedule, int64_t epoch_size);

  size_t next();
  /// Draws of each dataset so far.
  const std::vector<int64_t>& drawn() const { return drawn_; }

 private:
  const MixtureSchedule* schedule_;
  int64_t epoch_size_;
  int64_t epoch_ = 0;  // of the next draw
  int64_t place_ = 0;  // in its epoch
  int64_t step_ = -1;  // of shares_
  std::vector<double> shares_;
  std::vector<double> behind_;
  std::vector<int64_t> drawn_;
};

}  // namespace accel
