#include "kernels/cpu/upcast.h"

#include <cpuid.h>

namespace accel {
namespace {

struct ProcessorTypes {
  bool bfloat16 = false, float16 = false;
  bool bfloat16_tiles = false, float16_tiles = false;
};

/// Intel 64 and IA-32 Architectures Software Developer's Manual, CPUID leaf 7: subleaf 0 has
/// AVX512_FP16 in bit 23 of EDX and AMX_BF16 in bit 22; subleaf 1 has AVX512_BF16 in bit 5 of EAX
/// and AMX_FP16 in bit 21.
ProcessorTypes types_of_processor() {
  ProcessorTypes types;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    types.float16 = (d >> 23U & 1U) != 0;
    types.bfloat16_tiles = (d >> 22U & 1U) != 0;
  }
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) {
    types.bfloat16 = (a >> 5U & 1U) != 0;
    types.float16_tiles = (a >> 21U & 1U) != 0;
  }
  return types;
}

const ProcessorTypes& processor_types() {
  static const ProcessorTypes types = types_of_processor();
  return types;
}

}  // namespace

bool upcasts(at::ScalarType type) {
  const ProcessorTypes& has = processor_types();
  return (type == at::kBFloat16 && !has.bfloat16) || (type == at::kHalf && !has.float16);
}

bool upcasts_attention_gradients(at::ScalarType type) {
  const ProcessorTypes& has = processor_types();
  return upcasts(type) || (type == at::kBFloat16 && !has.bfloat16_tiles) ||
         (type == at::kHalf && !has.float16_tiles);
}

at::Tensor upcast(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_floating_point() ? tensor.to(at::kFloat) : tensor;
}

std::optional<at::Tensor> upcast(const std::optional<at::Tensor>& tensor) {
  return tensor ? std::optional(upcast(*tensor)) : std::nullopt;
}

at::Tensor downcast(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.defined() ? tensor.to(type) : tensor;
}

}  // namespace accel
