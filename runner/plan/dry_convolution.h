// What convolutions give, and what they allocate on the way.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace accel {

/// Of the arguments of aten::convolution, in a DryScope.
std::vector<at::Tensor> dry_convolution(c10::ArrayRef<c10::IValue> in);

/// Of those of aten::convolution_backward; undefined where a gradient is not wanted.
std::vector<at::Tensor> dry_convolution_backward(c10::ArrayRef<c10::IValue> in);

/// Multiplications and additions of them.
double convolution_flops(c10::ArrayRef<c10::IValue> in, const at::Tensor& output);
double convolution_backward_flops(c10::ArrayRef<c10::IValue> in);

}  // namespace accel
