// Enables MKL's AVX-512 kernels on processors of other vendors.
//
// MKL restricts its AVX-512 kernels to Intel processors; elsewhere its float32 matrix products are
// less than half as fast. It calls the function below once, before its first computation. libtorch
// defines the function too, but the executable's definition has precedence. Measured on an AMD EPYC
// of family 26 (Zen 5): docs/performance.md.
#include "kernels/choice.h"

/// Whether MKL treats the processor as Intel's. For PyTorch's bits with `accelerator.kernels:
/// reference`, use_kernels() must precede any computation, and so must set_mkl_instructions().
extern "C" __attribute__((visibility("default"))) int mkl_serv_intel_cpu_true() {
  return __builtin_cpu_is("intel") != 0 || accel::enables_avx512_of_mkl() ? 1 : 0;
}
