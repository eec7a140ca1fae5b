// Operators whose outputs libtorch cannot tell without computing them, and what operators compute.
#pragma once

#include <ATen/core/stack.h>

#include <string>

namespace accel {

/// Replaces the arguments on top of the stack by the operator's outputs. False, and nothing is
/// done: it is not known here.
bool dry_output(const std::string& op, torch::jit::Stack& stack, size_t arguments);

/// Of an operator with these arguments; 0 for what hardly computes, and for a convolution, whose
/// output dry_output() counts by.
double flops_of(const std::string& op, c10::ArrayRef<c10::IValue> arguments);

}  // namespace accel
