// Forward passes through a pipeline outside of training, such as those of text generation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>

namespace accel {

struct Job;

/// `compute(k)` runs the forward pass of `inputs` for this rank's k-th stage, and returns its
/// output on the last one; elsewhere it ends early, by an exception that this function catches.
using StageForward = std::function<at::Tensor(size_t k)>;
/// Returns the last stage's output on all ranks.
using StagedForward =
    std::function<at::Tensor(const at::Tensor& inputs, const StageForward& compute)>;

/// Null for a job without stages. The job outlives it; all ranks of the pipeline call it.
StagedForward staged_forward(const Job& job);

}  // namespace accel
