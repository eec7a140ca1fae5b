// Lets MKL, which libtorch computes products of float32 matrices with, use what the processor has.
//
// MKL takes its kernels for AVX-512 on Intel's processors alone and, on others that have the same
// instructions, ones that are less than half as fast. It asks the function below once, when it
// first computes something; libtorch has that function too, and an executable's comes before a
// library's. Measured on an AMD EPYC of family 26 (Zen 5): docs/performance.md.
#include "core/cpu_target.h"
#include "kernels/kernels.h"

/// Whether this is a processor of Intel's, or to be taken for one: with fused kernels, and AVX-512.
/// So that `accelerator.kernels: reference` has PyTorch's bits, use_kernels() comes before anything
/// is computed.
extern "C" __attribute__((visibility("default"))) int mkl_serv_intel_cpu_true() {
  using namespace accel;
  const bool may_take = kernels_of_process() == Kernels::kFused;
  const bool is_taken = may_take && cpu_target() == CpuTarget::kAvx512;
  return __builtin_cpu_is("intel") != 0 || is_taken ? 1 : 0;
}
