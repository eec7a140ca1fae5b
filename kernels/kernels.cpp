#include "kernels/kernels.h"

#include <atomic>

#include "kernels/cpu_operators.h"

namespace accel {
namespace {

std::atomic<Kernels> of_process = Kernels::kReference;
thread_local bool reference_only = false;

}  // namespace

void use_kernels(Kernels kernels) {
  if (kernels == Kernels::kFused) stand_in_for_aten();
  of_process = kernels;
}

Kernels kernels() {
  return reference_only ? Kernels::kReference : of_process.load(std::memory_order_relaxed);
}

ReferenceKernels::ReferenceKernels() : outer_(std::exchange(reference_only, true)) {}

ReferenceKernels::~ReferenceKernels() {
  reference_only = outer_;
}

}  // namespace accel
