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
#define ACCEL_FOR_EACH_CPU(name, loop, parameters, arguments) \
  ACCEL_FOR_EACH_CPU_OF(name, (loop, loop, loop), parameters, arguments)

#define ACCEL_FIRST_LOOP(first, second, third) first
#define ACCEL_SECOND_LOOP(first, second, third) second
#define ACCEL_THIRD_LOOP(first, second, third) third

/// The same with a loop for AVX-512, one for AVX2 and one for other processors: those of a template
/// for the sizes of their registers, for instance.
#define ACCEL_FOR_EACH_CPU_OF(name, loops, parameters, arguments)                             \
  __attribute__((target(                                                                      \
      "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"))) static void name##_avx512 parameters { \
    ACCEL_FIRST_LOOP loops arguments;                                                         \
  }                                                                                           \
  __attribute__((target("avx2,fma"))) static void name##_avx2 parameters {                    \
    ACCEL_SECOND_LOOP loops arguments;                                                        \
  }                                                                                           \
  static void name##_any parameters {                                                         \
    ACCEL_THIRD_LOOP loops arguments;                                                         \
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
