// Kinds of processors on which kernels were measured beside the libraries'.
#pragma once

namespace accel {

/// AVX2 without AVX-512 (Zen 3; Intel's with AVX-512 masked), Intel's with AVX-512 (Ice Lake), and
/// others (bench/kernel_speed.cpp).
enum class MeasuredCpu { kUnmeasured, kAvx2, kIntelAvx512 };

/// Of this processor, with the instructions of cpu_target(); kUnmeasured without an SGEMM of BLAS.
MeasuredCpu measured_cpu();

}  // namespace accel
