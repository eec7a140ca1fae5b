#include "kernels/choice.h"

#include <atomic>

namespace accel {
namespace {

std::atomic<Kernels> of_process = Kernels::kReference;
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
