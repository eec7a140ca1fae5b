// Loss and gradient norm of steps on a device: checked there, read by the host a step later.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "train/optim/skips_updates.h"

namespace accel {

struct Job;

/// Of one step, as in StepResult.
struct StepNumbers {
  double loss = 0;
  double grad_norm = 0;
};

/// The host launches a step, then reads the numbers of the step before, and so waits for no work
/// that it has just launched. Until it reads, a flag on the device keeps a step whose numbers are
/// not finite, and all steps after it, from changing weights and the optimizer's state.
class StepReadback {
 public:
  /// Null where the host reads the numbers in the step: docs/gpu.md lists these jobs. The job
  /// outlives it.
  static std::unique_ptr<StepReadback> make(const Job& job);
  ~StepReadback();
  StepReadback(const StepReadback&) = delete;
  StepReadback& operator=(const StepReadback&) = delete;

  /// Before the passes of a step: keeps the random state, to repeat them; once a step has diverged,
  /// restores that step's.
  void begin();
  /// Launches the check of a step's numbers, 0-d on the device, and their copy to the host. Called
  /// before the optimizer's step, at most twice ahead of read().
  void launch(const at::Tensor& loss, const at::Tensor& grad_norm);
  /// Waits for the numbers of the earliest step that is not read yet.
  StepNumbers read();
  /// The last numbers read, if they are not finite; else null.
  const StepNumbers* diverged() const { return diverged_ ? &*diverged_ : nullptr; }

 private:
  /// A step in flight.
  struct Slot {
    at::Tensor generator, device_generator;  ///< their states before its passes
    at::Tensor numbers;                      ///< float64 [2], pinned
    c10::Event copied;
  };

  explicit StepReadback(const Job& job);
  /// The job's, which `ctl` may replace between steps.
  SkipsUpdates& optimizer() const;
  Slot slot() const;
  Slot& slot_of(int64_t step) { return slots_[static_cast<size_t>(step % 2)]; }

  const Job& job_;
  at::Device device_;
  at::Tensor numbers_;    ///< float64 [2] on the device
  at::Tensor found_inf_;  ///< 0-d float32: 1 from a step on whose numbers are not finite
  at::Tensor one_;        ///< [1] float32
  std::array<Slot, 2> slots_;
  int64_t launched_ = 0, read_ = 0;  ///< steps
  std::optional<StepNumbers> diverged_;
};

}  // namespace accel
