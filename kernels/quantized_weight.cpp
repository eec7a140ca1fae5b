#include "kernels/quantized_weight.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <functional>

#include "kernels/blockwise_quantization.h"
#include "kernels/choice.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/quantize_4bit.h"
#include "kernels/few_rows.h"
#include "kernels/memory/stored_outputs.h"
#include "kernels/without_autocast.h"

namespace accel {
namespace {

using Table = std::array<float, 16>;

/// The quantiles of the QLoRA paper (appendix E).
constexpr Table kNf4 = {-1.0F,
                        -0.6961928009986877F,
                        -0.5250730514526367F,
                        -0.39491748809814453F,
                        -0.28444138169288635F,
                        -0.18477343022823334F,
                        -0.09105003625154495F,
                        0.0F,
                        0.07958029955625534F,
                        0.16093020141124725F,
                        0.24611230194568634F,
                        0.33791524171829224F,
                        0.44070982933044434F,
                        0.5626170039176941F,
                        0.7229568362236023F,
                        1.0F};

/// Magnitudes in units of 1/12, by the three low bits; the fourth is the sign.
constexpr std::array<float, 8> kFp4Magnitudes = {0.0F, 0.0625F, 8.0F, 12.0F,
                                                 4.0F, 6.0F,    2.0F, 3.0F};

/// By code.
const Table& table_of(WeightCode code) {
  static const Table kFp4 = [] {
    Table out{};
    for (size_t i = 0; i < 8; ++i) {
      out[i] = kFp4Magnitudes[i] / 12.0F;
      out[i + 8] = -kFp4Magnitudes[i] / 12.0F;
    }
    return out;
  }();
  return code == WeightCode::kNf4 ? kNf4 : kFp4;
}

at::Tensor table_on(WeightCode code, at::Device device) {
  const Table& table = table_of(code);
  return at::from_blob(const_cast<float*>(table.data()), {16}).clone().to(device);
}

int64_t divided_up(int64_t count, int64_t by) {
  return (count + by - 1) / by;
}

/// A flat tensor as [blocks, size], the last block padded with zeros.
at::Tensor in_blocks(const at::Tensor& flat, int64_t size) {
  const int64_t padding = divided_up(flat.numel(), size) * size - flat.numel();
  return (padding > 0 ? at::constant_pad_nd(flat, {0, padding}) : flat).view({-1, size});
}

/// Smallest scale that a block is divided by: a block of zeros has the code of zero.
constexpr double kLeastScale = 1e-38;

/// The blocks of a flat tensor in [-1, 1]. bitsandbytes multiplies whole blocks by the reciprocal
/// of their scale, and divides a shorter last one if `divides_last`.
at::Tensor unit_blocks(const at::Tensor& flat, const at::Tensor& scales, int64_t size,
                       bool divides_last) {
  const at::Tensor divisors = scales.clamp_min(kLeastScale);
  at::Tensor unit = in_blocks(flat, size).mul(divisors.reciprocal().unsqueeze(1)).flatten();
  const int64_t rest = flat.numel() % size, whole = flat.numel() - rest;
  if (rest > 0 && divides_last) {
    unit.narrow(0, whole, rest).copy_(flat.narrow(0, whole, rest).div(divisors[-1]));
  }
  return unit.narrow(0, 0, flat.numel()).clamp(-1, 1);
}

at::Tensor midpoints(const at::Tensor& ascending) {
  const int64_t last = ascending.numel() - 1;
  return ascending.narrow(0, 0, last).add(ascending.narrow(0, 1, last)).div(2);
}

/// I32 codes of the nearest table entries, of equally near ones the smaller.
at::Tensor nearest_codes(const at::Tensor& unit, WeightCode code) {
  const at::Tensor table = table_on(code, unit.device());
  const auto [ascending, order] = table.sort();
  const at::Tensor places = at::bucketize(unit, midpoints(ascending), /*out_int32=*/true);
  return order.to(at::kInt).index_select(0, places);
}

/// dynamic_map() of signed numbers, made once unless tensors are fake.
at::Tensor signed_map(at::Device device) {
  if (has_shapes_only()) return dynamic_map(/*is_signed=*/true).to(device);
  static const at::Tensor map = dynamic_map(/*is_signed=*/true);
  return map.to(device);
}

/// The scales in 8 bits, by a table of the codes of 65536 equidistant numbers, as in bitsandbytes'
/// CPU kernel.
void quantize_scales(QuantizedWeight& weight) {
  constexpr double kHalf = 32767.5;  // steps of [0, 1]
  const at::Tensor scales = weight.abs_max;
  const at::Tensor map = signed_map(scales.device());
  weight.nested_offset = scales.mean().view({1});
  const at::Tensor centred = scales.sub(weight.nested_offset);
  weight.nested_abs_max = in_blocks(centred.abs(), kScaleBlock).amax(1);
  const at::Tensor unit =
      unit_blocks(centred, weight.nested_abs_max, kScaleBlock, /*divides_last=*/false);
  const at::Tensor grid = at::arange(65536, scales.options()).div(kHalf).sub(1);
  const at::Tensor codes = at::bucketize(grid, midpoints(map), /*out_int32=*/true).to(at::kByte);
  const at::Tensor places = unit.add(1).mul(kHalf).add(0.5).to(at::kInt);
  weight.abs_max = codes.index_select(0, places);
}

/// F32 [blocks].
at::Tensor scales_of(const QuantizedWeight& weight) {
  if (!weight.is_double()) return weight.abs_max;
  const at::Tensor map = signed_map(weight.abs_max.device());
  const int64_t blocks = weight.abs_max.numel();
  const at::Tensor values = map.index_select(0, weight.abs_max.to(at::kInt));
  return in_blocks(values, kScaleBlock)
      .mul(weight.nested_abs_max.unsqueeze(1))
      .flatten()
      .narrow(0, 0, blocks)
      .add(weight.nested_offset);
}

/// F32, flat.
at::Tensor reference_4bit(const QuantizedWeight& weight) {
  const at::Tensor pairs =
      at::stack({weight.codes.bitwise_right_shift(4), weight.codes.bitwise_and(15)}, 1);
  const int64_t count = weight.rows * weight.columns;
  const at::Tensor codes = pairs.flatten().narrow(0, 0, count).to(at::kInt);
  const at::Tensor values = table_on(weight.code, codes.device()).index_select(0, codes);
  return in_blocks(values, kWeightBlock)
      .mul(scales_of(weight).unsqueeze(1))
      .flatten()
      .narrow(0, 0, count);
}

constexpr int64_t kBlockGrain = 256;  // minimum blocks per thread

/// Scales [blocks] and codes of flat float32 values.
struct Codes4Bit {
  at::Tensor scales, codes;
};

Codes4Bit reference_codes(const at::Tensor& flat, WeightCode code) {
  Codes4Bit out;
  out.scales = in_blocks(flat.abs(), kWeightBlock).amax(1);
  at::Tensor codes =
      nearest_codes(unit_blocks(flat, out.scales, kWeightBlock, /*divides_last=*/true), code);
  // A missing last code is that of zero.
  if (codes.numel() % 2 > 0)
    codes = at::cat({codes, nearest_codes(at::zeros({1}, flat.options()), code)});
  const at::Tensor pairs = codes.view({-1, 2});
  out.codes = pairs.select(1, 0).mul(16).add(pairs.select(1, 1)).to(at::kByte);
  return out;
}

/// reference_codes() in one pass over whole blocks.
Codes4Bit fused_codes(const at::Tensor& values, WeightCode code) {
  const at::Tensor flat = values.contiguous();
  const int64_t count = flat.numel(), whole = count / kWeightBlock;
  const auto [ascending, order] = table_on(code, at::kCPU).sort();
  const at::Tensor bounds = midpoints(ascending), codes_by_place = order.to(at::kByte);
  Codes4Bit out = {at::empty({divided_up(count, kWeightBlock)}, flat.options()),
                   at::empty({divided_up(count, 2)}, flat.options().dtype(at::kByte))};
  const NearestCodes nearest = {bounds.const_data_ptr<float>(),
                                codes_by_place.const_data_ptr<uint8_t>()};
  const auto* const from = flat.const_data_ptr<float>();
  auto* const scales = out.scales.mutable_data_ptr<float>();
  auto* const codes = out.codes.mutable_data_ptr<uint8_t>();
  for_each_part(whole, kBlockGrain, [&](int64_t begin, int64_t end) {
    quantize_4bit_cpu(nearest, from + begin * kWeightBlock, end - begin,
                      {scales + begin, codes + begin * kWeightBlock / 2});
  });
  if (whole * kWeightBlock < count) {
    const int64_t first = whole * kWeightBlock;
    const Codes4Bit rest = reference_codes(flat.narrow(0, first, count - first), code);
    out.scales.narrow(0, whole, 1).copy_(rest.scales);
    out.codes.narrow(0, first / 2, rest.codes.numel()).copy_(rest.codes);
  }
  return out;
}

/// reference_4bit() in one pass over the codes.
at::Tensor fused_4bit(const QuantizedWeight& weight) {
  static_assert(kCodesPerBlock == kWeightBlock);
  const int64_t count = weight.rows * weight.columns;
  const at::Tensor scales = scales_of(weight).contiguous();
  at::Tensor out = at::empty({count}, scales.options());
  const float* const table = table_of(weight.code).data();
  const auto* const codes = weight.codes.const_data_ptr<uint8_t>();
  const float* const scale = scales.const_data_ptr<float>();
  float* const to = out.mutable_data_ptr<float>();
  for_each_part(scales.numel(), kBlockGrain, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kWeightBlock;
    decode_4bit({codes, scale + begin, table}, first, std::min(end * kWeightBlock, count),
                to + first);
  });
  return out;
}

constexpr double kInt8Step = 1.0 / 127;

at::Tensor dequantize_int8(const QuantizedWeight& weight, at::ScalarType type) {
  return weight.codes.to(type).mul(weight.abs_max.unsqueeze(1).mul(kInt8Step).to(type));
}

using Scales = std::function<void(int64_t first, int64_t count, float* to)>;

Scales int8_scales(const QuantizedWeight& weight, bool rounds) {
  const auto* const abs_max = weight.abs_max.const_data_ptr<float>();
  return [abs_max, rounds](int64_t first, int64_t count, float* to) {
    for (int64_t i = 0; i < count; ++i) {
      const float scale = abs_max[first + i] * static_cast<float>(kInt8Step);
      to[i] = rounds ? static_cast<float>(c10::BFloat16(scale)) : scale;
    }
  };
}

/// scales_of() of some blocks, with double quantization.
Scales block_scales(const QuantizedWeight& weight) {
  const auto* const codes = weight.abs_max.const_data_ptr<uint8_t>();
  const auto* const nested = weight.nested_abs_max.const_data_ptr<float>();
  const float offset = *weight.nested_offset.const_data_ptr<float>();
  const at::Tensor map = signed_map(at::kCPU);
  return [codes, nested, offset, map](int64_t first, int64_t count, float* to) {
    const auto* const values = map.const_data_ptr<float>();
    for (int64_t i = 0; i < count; ++i) {
      const float scale = values[codes[first + i]] * nested[(first + i) / kScaleBlock];
      to[i] = scale + offset;
    }
  };
}

/// Of a weight on the CPU, for products in float32 or bfloat16.
StoredWeight stored(const QuantizedWeight& weight, at::ScalarType type) {
  StoredWeight out = {.type = StoredWeight::Type::k4Bit,
                      .data = weight.codes.const_data_ptr(),
                      .rows = weight.rows,
                      .columns = weight.columns,
                      .rounds = type == at::kBFloat16};
  if (weight.code == WeightCode::kInt8) {
    out.type = StoredWeight::Type::kInt8;
    out.scales = int8_scales(weight, out.rounds);
    return out;
  }
  out.table = table_of(weight.code).data();
  if (weight.is_double()) {
    out.scales = block_scales(weight);
  } else {
    out.block_scales = weight.abs_max.const_data_ptr<float>();
  }
  return out;
}

class QuantizedLinear : public torch::autograd::Function<QuantizedLinear> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const QuantizedWeight& weight) {
    context->saved_data["code"] = static_cast<int64_t>(weight.code);
    context->saved_data["rows"] = weight.rows;
    context->saved_data["columns"] = weight.columns;
    context->save_for_backward(
        {weight.codes, weight.abs_max, weight.nested_abs_max, weight.nested_offset});
    const WithoutAutocast scope(x.device().type());
    return store_output([&] { return at::linear(x, dequantize_weight(weight, x.scalar_type())); });
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const QuantizedWeight weight = {static_cast<WeightCode>(context->saved_data["code"].toInt()),
                                    context->saved_data["rows"].toInt(),
                                    context->saved_data["columns"].toInt(),
                                    saved[0],
                                    saved[1],
                                    saved[2],
                                    saved[3]};
    const at::Tensor& dy = gradients[0];
    const WithoutAutocast scope(dy.device().type());
    return {dy.matmul(dequantize_weight(weight, dy.scalar_type())), at::Tensor()};
  }
};

}  // namespace

QuantizedWeight empty_quantized_weight(WeightCode code, at::IntArrayRef sizes, bool is_double) {
  QuantizedWeight out{code, sizes[0], sizes[1], {}, {}, {}, {}};
  if (code == WeightCode::kInt8) {
    out.codes = at::zeros(sizes, at::kChar);
    out.abs_max = at::zeros({out.rows}, at::kFloat);
    return out;
  }
  const int64_t count = out.rows * out.columns, blocks = divided_up(count, kWeightBlock);
  out.codes = at::zeros({divided_up(count, 2)}, at::kByte);
  out.abs_max = at::zeros({blocks}, is_double ? at::kByte : at::kFloat);
  if (!is_double) return out;
  out.nested_abs_max = at::zeros({divided_up(blocks, kScaleBlock)}, at::kFloat);
  out.nested_offset = at::zeros({1}, at::kFloat);
  return out;
}

QuantizedWeight quantize_weight(const at::Tensor& values, WeightCode code, bool is_double) {
  const at::NoGradGuard no_grad;
  if (has_shapes_only()) return empty_quantized_weight(code, values.sizes(), is_double);
  QuantizedWeight out{code, values.size(0), values.size(1), {}, {}, {}, {}};
  if (code == WeightCode::kInt8) {
    const at::Tensor half = values.to(at::kHalf);
    out.abs_max = half.abs().amax(1).to(at::kFloat);
    const at::Tensor factors = out.abs_max.clamp_min(kLeastScale).reciprocal().mul(127);
    out.codes = half.mul(factors.unsqueeze(1)).round().to(at::kChar);
    return out;
  }
  const at::Tensor flat = values.to(at::kFloat).flatten();
  const bool fused = kernels() == Kernels::kFused && flat.is_cpu();
  Codes4Bit quantized = fused ? fused_codes(flat, code) : reference_codes(flat, code);
  out.abs_max = std::move(quantized.scales);
  out.codes = std::move(quantized.codes);
  if (is_double) quantize_scales(out);
  return out;
}

at::Tensor dequantize_weight(const QuantizedWeight& weight, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  if (weight.code == WeightCode::kInt8) return dequantize_int8(weight, type);
  const bool fused = kernels() == Kernels::kFused && weight.codes.is_cpu();
  const at::Tensor flat = fused ? fused_4bit(weight) : reference_4bit(weight);
  return flat.to(type).view({weight.rows, weight.columns});
}

at::Tensor quantized_linear(const at::Tensor& x, const QuantizedWeight& weight,
                            const at::Tensor& bias, std::optional<at::ScalarType> type) {
  const at::DeviceType device = x.device().type();
  const at::ScalarType of_autocast = at::autocast::is_autocast_enabled(device)
                                         ? at::autocast::get_autocast_dtype(device)
                                         : x.scalar_type();
  const at::Tensor input = x.to(type.value_or(of_autocast));
  at::Tensor y =
      has_few_rows(input)
          ? few_rows_product(input, stored(weight, input.scalar_type())).to(input.scalar_type())
          : QuantizedLinear::apply(input, weight);
  if (bias.defined()) y = y.add(bias.to(y.scalar_type()));
  return type ? y.to(x.scalar_type()) : y;
}

}  // namespace accel
