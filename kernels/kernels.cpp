#include "kernels/kernels.h"

#include <atomic>

#include "kernels/cpu_operators.h"

namespace accel {
namespace {

std::atomic<Kernels> of_process = Kernels::kReference;
thread_local bool reference_only = false;
thread_local bool shapes_only = false;

}  // namespace

void use_kernels(Kernels kernels) {
  if (kernels == Kernels::kFused) stand_in_for_aten();
  of_process = kernels;
}

Kernels kernels_of_process() {
  return of_process.load(std::memory_order_relaxed);
}

Kernels kernels() {
  return reference_only || shapes_only ? Kernels::kReference : kernels_of_process();
}

ReferenceKernels::ReferenceKernels() : outer_(std::exchange(reference_only, true)) {}

ReferenceKernels::~ReferenceKernels() {
  reference_only = outer_;
}

ShapesOnly::ShapesOnly() : outer_(std::exchange(shapes_only, true)) {}

ShapesOnly::~ShapesOnly() {
  shapes_only = outer_;
}

bool stands_for_fused() {
  return shapes_only && !reference_only && of_process == Kernels::kFused;
}

bool allocates_as_fused() {
  return kernels() == Kernels::kFused || stands_for_fused();
}

}  // namespace accel
