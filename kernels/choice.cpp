#include "kernels/choice.h"

#include <atomic>

#include "core/base/cpu_target.h"

namespace accel {
namespace {

std::atomic<Kernels> of_process = Kernels::kReference;
std::atomic<MklInstructions> of_mkl = MklInstructions::kAuto;
thread_local bool shapes_only = false;

}  // namespace

Kernels kernels_of_process() {
  return of_process.load(std::memory_order_relaxed);
}

void set_kernels_of_process(Kernels kernels) {
  of_process = kernels;
}

Kernels kernels() {
  return shapes_only ? Kernels::kReference : kernels_of_process();
}

MklInstructions instructions_of_mkl() {
  return of_mkl.load(std::memory_order_relaxed);
}

void set_mkl_instructions(MklInstructions instructions) {
  of_mkl = instructions;
}

bool enables_intel_kernels_of_mkl() {
  return kernels_of_process() == Kernels::kFused &&
         instructions_of_mkl() == MklInstructions::kAuto && cpu_target() != CpuTarget::kAny &&
         __builtin_cpu_is("intel") == 0;
}

ShapesOnly::ShapesOnly() : outer_(std::exchange(shapes_only, true)) {}

ShapesOnly::~ShapesOnly() {
  shapes_only = outer_;
}

bool has_shapes_only() {
  return shapes_only;
}

bool fakes_fused() {
  return shapes_only && of_process == Kernels::kFused;
}

bool allocates_as_fused() {
  return kernels() == Kernels::kFused || fakes_fused();
}

}  // namespace accel
