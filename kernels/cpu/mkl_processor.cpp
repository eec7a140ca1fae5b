// Enables MKL's kernels for Intel processors on processors of other vendors.
//
// Elsewhere MKL uses no AVX-512, and AVX2 kernels that are slower. It calls the function below
// once, before its first computation. libtorch defines the function too, but the executable's
// definition has precedence. Measured on AMD EPYCs of families 25 (Zen 3, AVX2) and 26 (Zen 5,
// AVX-512): docs/performance.md.
#include "kernels/choice.h"

/// Whether MKL treats the processor as Intel's. For PyTorch's bits with `accelerator.kernels:
/// reference`, use_kernels() must precede any computation, and so must set_mkl_instructions().
extern "C" __attribute__((visibility("default"))) int mkl_serv_intel_cpu_true() {
  return __builtin_cpu_is("intel") != 0 || accel::enables_intel_kernels_of_mkl() ? 1 : 0;
}
