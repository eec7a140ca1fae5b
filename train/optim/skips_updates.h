// Optimizers whose updates the device can skip, without the host.
#pragma once

#include <cstdint>
#include <utility>

#include "core/api/batch.h"

namespace accel {

/// The device reads a flag in each step of such an optimizer, as torch's `found_inf`.
class SkipsUpdates {
 public:
  virtual ~SkipsUpdates() = default;

  /// Whether it does with its options.
  virtual bool can_skip() const = 0;
  /// `found_inf`: 0-d float32 on the parameters' device, 0 or 1. Steps that the device begins while
  /// it is 1 leave parameters and state as they are. Undefined: every step updates.
  virtual void set_found_inf(at::Tensor found_inf) { found_inf_ = std::move(found_inf); }
  /// Called when the host knows that the device skipped the last `count` steps, at most 2: forgets
  /// what the host counted in them.
  virtual void forget_skipped(int64_t /*count*/) {}

 protected:
  const at::Tensor& found_inf() const { return found_inf_; }

 private:
  at::Tensor found_inf_;
};

}  // namespace accel
