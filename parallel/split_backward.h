// Backward pass of a pipeline stage in two halves: the gradient of its input, then of its weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace accel {

/// The graph between the input and the output of a stage. The first half computes what the stage
/// before waits for, and keeps the gradients that arrive at operators with weights; the second half
/// runs these operators again for the weights alone (Qi et al., "Zero Bubble Pipeline Parallelism",
/// ICLR 2024). Gradients have the bits of one backward pass, unless a weight is used more than once
/// in a pass: they are then added in another order.
class SplitBackward {
 public:
  SplitBackward();
  ~SplitBackward();
  SplitBackward(SplitBackward&&) noexcept;
  SplitBackward& operator=(SplitBackward&&) noexcept;

  /// The gradient of `input`, a leaf or a computed tensor, by that of `output`; undefined: of a
  /// scalar loss. Undefined when `output` does not depend on it or it needs none. No gradient is
  /// accumulated.
  at::Tensor run_input(const at::Tensor& output, const at::Tensor& gradient,
                       const at::Tensor& input);
  /// Accumulates the gradients of the leaves that `output` depends on, except `input`, and frees
  /// the graph. Call once, after run_input().
  void run_weights();

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

}  // namespace accel
