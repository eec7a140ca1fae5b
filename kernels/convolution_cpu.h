// Kinds of processors on which algorithms of convolutions were measured beside oneDNN's loops.
#pragma once

namespace accel {

enum class ConvolutionPass { kForward, kBackward };

/// AVX2 without AVX-512 (Zen 3), Intel's with AVX-512 (Ice Lake), and others
/// (bench/kernel_speed.cpp).
enum class ConvolutionCpu { kUnmeasured, kAvx2, kIntelAvx512 };

/// Of this processor, with the instructions of cpu_target(); kUnmeasured without an SGEMM of BLAS.
ConvolutionCpu convolution_cpu();

}  // namespace accel
