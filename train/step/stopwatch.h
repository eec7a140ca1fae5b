// Wall time of a run by phase.
#pragma once

#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace accel {

/// kSync: communication with other ranks and waiting for them.
enum class Phase { kData, kForward, kBackward, kSync, kOptimizer, kEval, kSave, kOther };

/// Splits wall time into phases: each lap() charges the time since the last one.
class Stopwatch {
 public:
  Stopwatch() : last_(Clock::now()) {}

  void lap(Phase phase) {
    const Clock::time_point now = Clock::now();
    seconds_[static_cast<size_t>(phase)] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

  double seconds(Phase phase) const { return seconds_[static_cast<size_t>(phase)]; }
  double total() const;
  /// Seconds of this rank's computation in steps, without communication, evaluations and saves.
  double busy() const {
    return seconds(Phase::kData) + seconds(Phase::kForward) + seconds(Phase::kBackward) +
           seconds(Phase::kOptimizer);
  }
  /// The phases and their seconds so far: {"data", 1.5}, ...
  std::vector<std::pair<std::string, double>> phases() const;
  /// "data 1 %, forward 35 %, backward 55 %, optimizer 9 %": the phases that took any time.
  std::string summary() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::array<double, 8> seconds_{};
  Clock::time_point last_;
};

}  // namespace accel
