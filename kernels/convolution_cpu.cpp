#include "kernels/convolution_cpu.h"

#include "core/base/cpu_target.h"
#include "kernels/cpu/matrix_product.h"

namespace accel {

ConvolutionCpu convolution_cpu() {
  if (!has_matrix_product()) return ConvolutionCpu::kUnmeasured;
  if (cpu_target() == CpuTarget::kAvx2) return ConvolutionCpu::kAvx2;
  const bool is_intel = __builtin_cpu_is("intel") != 0;
  return is_intel && cpu_target() == CpuTarget::kAvx512 ? ConvolutionCpu::kIntelAvx512
                                                        : ConvolutionCpu::kUnmeasured;
}

}  // namespace accel
