#include "core/base/cpu_target.h"

#include <algorithm>
#include <string>

#include "core/base/environment.h"

namespace accel {
namespace {

CpuTarget of_processor() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return CpuTarget::kAvx512;
  }
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return avx2 ? CpuTarget::kAvx2 : CpuTarget::kAny;
}

CpuTarget of_environment() {
  const std::string allowed = environment_variable("ATEN_CPU_CAPABILITY").value_or("");
  if (allowed == "default") return CpuTarget::kAny;
  return allowed == "avx2" ? CpuTarget::kAvx2 : CpuTarget::kAvx512;
}

}  // namespace

CpuTarget cpu_target() {
  static const CpuTarget best = std::min(of_processor(), of_environment());
  return best;
}

}  // namespace accel
