#include "kernels/cpu/measured_cpu.h"

#include "core/base/cpu_target.h"
#include "kernels/cpu/matrix_product.h"

namespace accel {

MeasuredCpu measured_cpu() {
  if (!has_matrix_product()) return MeasuredCpu::kUnmeasured;
  if (cpu_target() == CpuTarget::kAvx2) return MeasuredCpu::kAvx2;
  const bool is_intel = __builtin_cpu_is("intel") != 0;
  return is_intel && cpu_target() == CpuTarget::kAvx512 ? MeasuredCpu::kIntelAvx512
                                                        : MeasuredCpu::kUnmeasured;
}

}  // namespace accel
