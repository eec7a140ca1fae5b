// Multiversioned loops: compiled for several instruction sets and dispatched at run time.
#pragma once

namespace accel {

enum class CpuTarget { kAny, kAvx2, kAvx512 };

/// The best instruction set of this processor, at most that of ATEN_CPU_CAPABILITY: `default`,
/// `avx2`, or `avx512`, as PyTorch reads it.
CpuTarget cpu_target();

}  // namespace accel

/// For functions that a multiversioned loop calls: inlined, they are compiled for its target.
#define ACCEL_PART_OF_LOOP __attribute__((always_inline)) inline

/// Defines `void name parameters`, which calls the ACCEL_PART_OF_LOOP function `loop` with
/// `arguments`. Both lists are given in parentheses.
#define ACCEL_FOR_EACH_CPU(name, loop, parameters, arguments)                                 \
  __attribute__((target(                                                                      \
      "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"))) static void name##_avx512 parameters { \
    loop arguments;                                                                           \
  }                                                                                           \
  __attribute__((target("avx2,fma"))) static void name##_avx2 parameters {                    \
    loop arguments;                                                                           \
  }                                                                                           \
  static void name##_any parameters {                                                         \
    loop arguments;                                                                           \
  }                                                                                           \
  void name parameters {                                                                      \
    switch (cpu_target()) {                                                                   \
      case CpuTarget::kAvx512:                                                                \
        return name##_avx512 arguments;                                                       \
      case CpuTarget::kAvx2:                                                                  \
        return name##_avx2 arguments;                                                         \
      default:                                                                                \
        return name##_any arguments;                                                          \
    }                                                                                         \
  }
