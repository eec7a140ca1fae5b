// Enables MKL's AVX-512 kernels on processors of other vendors.
//
// MKL restricts its AVX-512 kernels to Intel processors; elsewhere its float32 matrix products are
// less than half as fast. It calls the function below once, before its first computation. libtorch
// defines the function too, but the executable's definition has precedence. Measured on an AMD EPYC
// of family 26 (Zen 5): docs/performance.md.
#include "core/base/cpu_target.h"
#include "kernels/choice.h"

/// Whether MKL treats the processor as Intel's: true with fused kernels and AVX-512. For PyTorch's
/// bits with `accelerator.kernels: reference`, use_kernels() must precede any computation.
extern "C" __attribute__((visibility("default"))) int mkl_serv_intel_cpu_true() {
  using namespace accel;
  const bool may_take = kernels_of_process() == Kernels::kFused;
  const bool is_taken = may_take && cpu_target() == CpuTarget::kAvx512;
  return __builtin_cpu_is("intel") != 0 || is_taken ? 1 : 0;
}
