// Activation checkpointing: memory of the forward pass given back, for a second forward pass during
// the backward one.
#pragma once

#include <cstdint>
#include <functional>

#include "core/batch.h"

namespace accel {

class Model;

/// What `compute` gives, without anything kept for the backward pass but `compute` itself and what
/// it holds. There it is called again, with the random numbers and the autocast that it had: all
/// gradients have the bits they would have had. It must compute the same each time.
at::Tensor recomputed(std::function<at::Tensor()> compute);

/// Whether this thread is in such a second call, in which no statistics may be counted.
bool is_recomputing();

/// Switches it on for every block of the model. Returns how many blocks there are. In a process
/// that computes on a GPU it must come before the first backward pass: PyTorch's engine, which this
/// replaces, starts its threads once.
int64_t recompute_blocks(Model& model);

}  // namespace accel
