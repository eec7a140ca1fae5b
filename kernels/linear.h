// Linear layers whose weights fit in the second cache.
#pragma once

#include "core/api/batch.h"
#include "kernels/cpu/measured_cpu.h"

namespace accel {

/// Of a linear layer: weight [outputs, inputs], bias [outputs]; undefined without one.
struct LinearParameters {
  at::Tensor weight, bias;
};

/// Whether the gradients of linear() were measured to be faster block by block: contiguous x
/// [..., inputs], weight and bias in float32 on the CPU, without autocast, two narrow products
/// (is_narrow_product()) of at most 65,536 weights, and an output of 1,048,576 numbers or more that
/// is wider than x. False on unmeasured processors and with the reference kernels.
bool has_narrow_gradients(const at::Tensor& x, const LinearParameters& layer,
                          MeasuredCpu cpu = measured_cpu());

/// at::linear(). Where has_narrow_gradients(), the backward pass reads the gradient of the output
/// once: all gradients of a block of rows are computed while it is in the cache, for any number of
/// threads with the same bits. Reference: at::linear(), within the rounding of sums in another
/// order.
at::Tensor linear(const at::Tensor& x, const LinearParameters& layer);

}  // namespace accel
