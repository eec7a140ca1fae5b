#include "data/loader/mixture_schedule.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace accel {

double weight_at(const std::vector<WeightPoint>& points, int64_t step, MixtureCurve curve) {
  const auto next = std::find_if(points.begin(), points.end(),
                                 [&](const WeightPoint& point) { return point.step > step; });
  if (next == points.begin()) return next->weight;
  const WeightPoint& last = *std::prev(next);
  if (next == points.end() || curve == MixtureCurve::kStages) return last.weight;
  const double part =
      static_cast<double>(step - last.step) / static_cast<double>(next->step - last.step);
  return last.weight + (next->weight - last.weight) * part;
}

std::vector<double> MixtureSchedule::shares(int64_t step) const {
  std::vector<double> out;
  out.reserve(weights.size());
  for (const auto& points : weights) out.push_back(weight_at(points, step, curve));
  const double sum = std::accumulate(out.begin(), out.end(), 0.0);
  for (double& share : out) share /= sum;
  return out;
}

std::vector<int64_t> MixtureSchedule::steps() const {
  std::set<int64_t> all;
  for (const auto& points : weights) {
    for (const WeightPoint& point : points) all.insert(point.step);
  }
  return {all.begin(), all.end()};
}

ScheduledTurns::ScheduledTurns(const MixtureSchedule& schedule, int64_t epoch_size)
    : schedule_(&schedule),
      epoch_size_(epoch_size),
      behind_(schedule.weights.size(), 0),
      drawn_(schedule.weights.size(), 0) {}

size_t ScheduledTurns::next() {
  // Samples that 'drop_last' leaves out belong to the last step.
  const int64_t of_epoch = std::min(place_ / schedule_->batch, schedule_->steps_per_epoch - 1);
  const int64_t step = epoch_ * schedule_->steps_per_epoch + of_epoch;
  if (step != step_) {
    shares_ = schedule_->shares(step);
    step_ = step;
  }
  size_t most = shares_.size();
  for (size_t i = 0; i < shares_.size(); ++i) {
    behind_[i] += shares_[i];
    if (shares_[i] > 0 && (most == shares_.size() || behind_[i] > behind_[most])) most = i;
  }
  behind_[most] -= 1;
  ++drawn_[most];
  if (++place_ == epoch_size_) {
    place_ = 0;
    ++epoch_;
  }
  return most;
}

}  // namespace accel
