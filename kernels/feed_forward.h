// The feed-forward layer of a transformer whose weights fit in the second cache.
#pragma once

#include "core/api/batch.h"
#include "kernels/cpu/gelu.h"
#include "kernels/cpu/measured_cpu.h"
#include "kernels/linear.h"

namespace accel {

/// Two linear layers, the first to the inner activations, with GELU between them.
struct FeedForward {
  LinearParameters in, out;
  GeluForm gelu;
};

/// Whether feed_forward() was measured to be faster than the layers one by one: contiguous x
/// [..., width], weights and biases in float32 on the CPU, without autocast, and two narrow
/// products (is_narrow_product()). False on unmeasured processors and with the reference kernels.
bool is_narrow_feed_forward(const at::Tensor& x, const FeedForward& layers,
                            MeasuredCpu cpu = measured_cpu());

/// The output [..., width] of the layers that is_narrow_feed_forward() is true for, differentiable,
/// for any number of threads with the same bits. Inner activations stay in the cache, block by
/// block: of them only the inputs of GELU are saved for the backward pass, which computes GELU
/// again. Reference: at::linear() and at::gelu(), within the rounding of sums in another order.
at::Tensor feed_forward(const at::Tensor& x, const FeedForward& layers);

}  // namespace accel
