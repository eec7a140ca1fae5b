// Buffers of MKL's matrix products.
#pragma once

#include <cstddef>

#include "kernels/memory/tensor_heap.h"

namespace accel {

/// The block that a thread keeps for the next matrix product is at most this large, in bytes.
inline constexpr size_t kMostKeptByMkl = 10 << 20;

/// Makes MKL take its buffers from `heap`, which must live as long as the process. MKL itself keeps
/// every buffer until the process ends; here a thread keeps one, and large ones, such as those of
/// products with a vocabulary, are free for tensors after each product. Must precede
/// any computation. Does nothing without MKL.
void share_heap_with_mkl(TensorHeap& heap);

}  // namespace accel
