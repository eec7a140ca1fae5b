// Time of an optimizer step on other hardware, estimated from a plan by a roofline model.
#pragma once

#include "runner/plan/hardware.h"
#include "runner/plan/plan.h"

namespace accel {

/// How a recipe computes.
struct ComputeMode {
  bool is_16bit = false;    ///< matrix products in bf16 or fp16
  bool recomputes = false;  ///< matrix products, in backward passes
};

ComputeMode compute_mode(const RecipeOptions& recipe);

/// Seconds of a step. Operators take the time of their FLOPs or of their memory traffic, without
/// fusion. Communication inside layers (tp, cp) waits; gathers and reductions of data parallel axes
/// overlap the computation of the micro-batches that they serve, the rest is exposed.
struct StepTime {
  double compute = 0;        ///< of the rank with the most
  double layers = 0;         ///< communication inside layers
  double bubble = 0;         ///< idle time of a pipeline, with its messages
  double data_parallel = 0;  ///< exposed communication of data parallel axes
  double optimizer = 0;

  double total() const { return compute + layers + bubble + data_parallel + optimizer; }
};

StepTime estimate_step(const Plan& plan, const Hardware& hardware, const ComputeMode& mode);

/// A lower bound of the estimates of all plans with this one's tp, pp and cp, whatever divides the
/// data parallel ranks: seconds of matrix products, of activations that layers exchange, and of the
/// pipeline's bubble.
double least_step_seconds(const Plan& plan, const Hardware& hardware, const ComputeMode& mode);

/// Bytes of the rank with the most on the processor: without what stays in the host's memory. Not
/// less than the peak of the tensors of rank 0.
double device_bytes(const Plan& plan);

/// Bytes that a plan may use on the processor, without those of its driver and libraries.
double device_memory(const Hardware& hardware);

}  // namespace accel
