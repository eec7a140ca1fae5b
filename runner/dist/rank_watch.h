// Told what a rank is doing, so that one that hangs or dies can be named.
#pragma once

#include <cstdint>

namespace accel {

/// Called on the rank's own thread; cheap, and never throws. This one forgets everything.
class RankWatch {
 public:
  virtual ~RankWatch() = default;
  /// Optimizer step `step`, counted from 1, begins.
  virtual void step(int64_t /*step*/) noexcept {}
  /// What the rank does from now on: "data", "training", "evaluation", "saving".
  virtual void phase(const char* /*name*/) noexcept {}
  /// The rank begins collective number `sequence`, counted from 1 alike on all ranks.
  virtual void entered(const char* /*what*/, int64_t /*sequence*/) noexcept {}
  /// The collective is done.
  virtual void left() noexcept {}
};

}  // namespace accel
