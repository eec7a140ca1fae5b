// Matrix products of many rows with a weight that fits in the second cache.
#pragma once

#include "core/api/batch.h"
#include "kernels/cpu/measured_cpu.h"

namespace accel {

/// Whether the tensor is defined, float32, contiguous and on the CPU.
bool is_plain_float(const at::Tensor& tensor);

/// Whether narrow_product() was measured to be faster than ATen: a [rows, inner] and b
/// [inner, columns] in float32 on the CPU, enough contiguous rows, one of the strides of b 1, and
/// sums of at most 1024 products. False on unmeasured processors.
bool is_narrow_product(const at::Tensor& a, const at::Tensor& b, MeasuredCpu cpu = measured_cpu());

/// The same of any product of `rows` rows with a matrix [inner, columns].
bool is_narrow_product(int64_t rows, int64_t inner, int64_t columns, MeasuredCpu cpu);

/// a * b, plus `bias` [columns] if it is defined, for any number of threads with the same bits. For
/// the types and strides of is_narrow_product(). Reference: at::mm and at::addmm, within the
/// rounding of sums in another order.
at::Tensor narrow_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);

}  // namespace accel
