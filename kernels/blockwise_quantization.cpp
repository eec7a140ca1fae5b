#include "kernels/blockwise_quantization.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace accel {
namespace {

constexpr int kDecades = 7;

/// Midpoints of `count` equal parts of [0.1, 1].
std::vector<float> midpoints(int64_t count) {
  const at::Tensor edges = at::linspace(0.1, 1, count + 1, at::kFloat);
  const at::Tensor means = edges.narrow(0, 0, count).add(edges.narrow(0, 1, count)).div(2.0);
  const float* const data = means.const_data_ptr<float>();
  return {data, data + count};
}

/// [blocks, kQuantizationBlock], the last block padded with zeros.
at::Tensor in_blocks(const at::Tensor& values) {
  const at::Tensor flat = values.reshape({-1});
  const int64_t blocks = num_quantization_blocks(flat.numel());
  const int64_t padding = blocks * kQuantizationBlock - flat.numel();
  const at::Tensor whole = padding > 0 ? at::constant_pad_nd(flat, {0, padding}) : flat;
  return whole.view({blocks, kQuantizationBlock});
}

/// Of `values`, whose blocks have these largest magnitudes.
at::Tensor nearest_codes(const at::Tensor& values, const at::Tensor& largest,
                         const at::Tensor& map) {
  // A block of zeros has the code of 0.
  const at::Tensor unit = at::where(largest.gt(0), values.div(largest), 0.0F).contiguous();
  const int64_t last = map.numel() - 1;
  const at::Tensor right =
      at::searchsorted(map, unit, /*out_int32=*/true, /*right=*/true).clamp(1, last);
  const at::Tensor left = right.sub(1);
  const auto distance = [&](const at::Tensor& index) {
    return map.index_select(0, index.flatten()).view(index.sizes()).sub(unit).abs();
  };
  return at::where(distance(right).lt(distance(left)), right, left);
}

}  // namespace

at::Tensor dynamic_map(bool is_signed) {
  std::vector<float> values = {0, 1};
  for (int decade = 0; decade < kDecades; ++decade) {
    const auto scale = static_cast<float>(std::pow(10.0, decade - (kDecades - 1)));
    for (const float mean : midpoints(int64_t{1} << (is_signed ? decade : decade + 1))) {
      values.push_back(scale * mean);
      if (is_signed) values.push_back(-scale * mean);
    }
  }
  std::sort(values.begin(), values.end());
  return at::tensor(values);
}

int64_t num_quantization_blocks(int64_t elements) {
  return (elements + kQuantizationBlock - 1) / kQuantizationBlock;
}

at::Tensor dequantize(const QuantizedTensor& from) {
  const at::Tensor values = from.map.index_select(0, from.codes.flatten().to(at::kInt));
  const at::Tensor scaled = in_blocks(values).mul(from.abs_max.unsqueeze(1));
  return scaled.flatten().narrow(0, 0, values.numel()).view(from.codes.sizes());
}

void quantize(const at::Tensor& values, const QuantizedTensor& to) {
  const at::Tensor blocks = in_blocks(values);
  to.abs_max.copy_(blocks.abs().amax(1));
  const at::Tensor codes = nearest_codes(blocks, to.abs_max.unsqueeze(1), to.map);
  to.codes.copy_(codes.flatten().narrow(0, 0, values.numel()).view(to.codes.sizes()));
}

at::Tensor dequantize_share(const QuantizedTensor& from, const at::Tensor& blocks) {
  const at::Tensor values = from.map.index_select(0, from.codes.flatten().to(at::kInt));
  return values.mul(from.abs_max.index_select(0, blocks.flatten())).view(from.codes.sizes());
}

at::Tensor largest_of_blocks(const at::Tensor& values, const at::Tensor& blocks, int64_t count) {
  const at::Tensor out = at::zeros({count}, values.options());
  return out.scatter_reduce(0, blocks.flatten(), values.abs().flatten(), "amax");
}

void quantize_share(const at::Tensor& values, const at::Tensor& blocks, const QuantizedTensor& to) {
  const at::Tensor largest = to.abs_max.index_select(0, blocks.flatten());
  const at::Tensor codes = nearest_codes(values.flatten(), largest, to.map);
  to.codes.copy_(codes.view(to.codes.sizes()));
}

}  // namespace accel
