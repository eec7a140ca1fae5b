// Block-wise dynamic 8-bit quantization of optimizer state (Dettmers et al., 2022), as
// bitsandbytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace accel {

/// Elements of a block, which share one scale.
inline constexpr int64_t kQuantizationBlock = 256;

/// The 256 values of the dynamic data type in ascending order, F32, in [-1, 1], or [0, 1] unless
/// `is_signed`: decades of decreasing precision towards 0.
at::Tensor dynamic_map(bool is_signed);

/// A tensor in 8 bits. Blocks follow the row-major order of the elements.
struct QuantizedTensor {
  at::Tensor codes;    ///< U8, indices in the map
  at::Tensor abs_max;  ///< [blocks] F32, of each block
  at::Tensor map;      ///< [256] F32, ascending
};

int64_t num_quantization_blocks(int64_t elements);

/// F32, of the shape of the codes.
at::Tensor dequantize(const QuantizedTensor& from);

/// Writes the nearest codes of `values`, F32 of the shape of the codes, and the blocks' scales.
void quantize(const at::Tensor& values, const QuantizedTensor& to);

/// Of a share of a tensor whose blocks run over the whole one: `blocks`, I64 of the shape of the
/// codes, has the block of each element, and `from` the scales of all blocks.
at::Tensor dequantize_share(const QuantizedTensor& from, const at::Tensor& blocks);

/// [count] F32: the largest magnitude of each block in a share of it, 0 where it has none.
at::Tensor largest_of_blocks(const at::Tensor& values, const at::Tensor& blocks, int64_t count);

/// Writes the nearest codes of the values of a share, given the scales of all blocks in `to`.
void quantize_share(const at::Tensor& values, const at::Tensor& blocks, const QuantizedTensor& to);

}  // namespace accel
