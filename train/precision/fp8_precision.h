// Mixed precision of fp8 with delayed scaling.
#pragma once

#include <functional>
#include <memory>

#include "kernels/fp8/delayed_scales.h"
#include "train/precision/precision.h"

namespace accel {

/// Autocast of bf16; update() computes the scales of the next step. `reduce` takes the maxima of
/// magnitudes, float32 [operands], over ranks in place.
std::unique_ptr<Precision> make_delayed_precision(
    at::Device device, DelayedScales scales, std::function<void(const at::Tensor& amax)> reduce);

}  // namespace accel
