// Operators on fake tensors: shape functions without a meta kernel, convolutions and FLOP counts.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

namespace accel {

/// The output of aten::convolution.
std::vector<at::Tensor> fake_convolution(c10::ArrayRef<c10::IValue> in);

/// The gradients of aten::convolution_backward; undefined where the mask excludes them.
std::vector<at::Tensor> fake_convolution_backward(c10::ArrayRef<c10::IValue> in);

/// Floating-point operations of both.
double convolution_flops(c10::ArrayRef<c10::IValue> in, const at::Tensor& output);
double convolution_backward_flops(c10::ArrayRef<c10::IValue> in);

/// Replaces the arguments on top of the stack by the operator's outputs. False for an unknown
/// operator, with the stack unchanged.
bool fake_output(const std::string& op, torch::jit::Stack& stack, size_t arguments);

/// FLOPs of an operator with these arguments; 0 for cheap ones and for convolutions, which
/// fake_output() counts.
double flops_of(const std::string& op, c10::ArrayRef<c10::IValue> arguments);

}  // namespace accel
