// Scope in which the process uses the reference kernels.
#pragma once

#include "kernels/choice.h"

namespace accel {

class ReferenceKernels {
 public:
  ReferenceKernels() { set_kernels_of_process(Kernels::kReference); }
  ~ReferenceKernels() { set_kernels_of_process(outer_); }
  ReferenceKernels(const ReferenceKernels&) = delete;
  ReferenceKernels& operator=(const ReferenceKernels&) = delete;

 private:
  const Kernels outer_ = kernels_of_process();
};

}  // namespace accel
