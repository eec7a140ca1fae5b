#include "kernels/narrow_product.h"

#include <ATen/ops/empty.h>

#include "kernels/cpu/aligned_numbers.h"
#include "kernels/cpu/panel_product.h"
#include "kernels/cpu/parallel.h"

namespace accel {
namespace {

constexpr int64_t kLeastRows = 256;    // for which a weight is packed
constexpr int64_t kLongestSum = 1024;  // of one register: MKL adds shorter sums, more exactly
constexpr int64_t kRowsOfPart = 96;    // of one thread

/// Numbers of a packed weight that fit in the second cache.
int64_t most_numbers(MeasuredCpu cpu) {
  switch (cpu) {
    case MeasuredCpu::kAvx2:
      return 65536;
    case MeasuredCpu::kIntelAvx512:
      return 262144;
    case MeasuredCpu::kUnmeasured:
      break;
  }
  return 0;
}

bool is_float_matrix(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && x.dim() == 2 && x.numel() > 0;
}

}  // namespace

bool is_plain_float(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.scalar_type() == at::kFloat &&
         tensor.is_contiguous();
}

bool is_narrow_product(int64_t rows, int64_t inner, int64_t columns, MeasuredCpu cpu) {
  return rows >= kLeastRows && inner <= kLongestSum &&
         panel_numbers(inner, columns) <= most_numbers(cpu);
}

bool is_narrow_product(const at::Tensor& a, const at::Tensor& b, MeasuredCpu cpu) {
  return is_float_matrix(a) && is_float_matrix(b) && a.size(1) == b.size(0) && a.stride(1) == 1 &&
         (b.stride(0) == 1 || b.stride(1) == 1) &&
         is_narrow_product(a.size(0), b.size(0), b.size(1), cpu);
}

at::Tensor narrow_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  const int64_t rows = a.size(0), inner = a.size(1), columns = b.size(1);
  const bool is_turned = b.stride(1) != 1;
  at::Tensor y = at::empty({rows, columns}, a.options());
  const AlignedNumbers panels(panel_numbers(inner, columns));
  pack_panels({b.const_data_ptr<float>(), b.stride(is_turned ? 1 : 0), is_turned},
              {rows, columns, inner}, panels.get());
  const PackedMatrix packed = {panels.get(),
                               bias.defined() ? bias.const_data_ptr<float>() : nullptr};
  const auto* const from = a.const_data_ptr<float>();
  auto* const to = y.mutable_data_ptr<float>();
  for_each_part(rows, kRowsOfPart, [&](int64_t begin, int64_t end) {
    panel_product({from + begin * a.stride(0), a.stride(0)}, packed, {end - begin, columns, inner},
                  {to + begin * columns, columns});
  });
  return y;
}

}  // namespace accel
