#include "models/undrawn_weights.h"

#include <ATen/core/Generator.h>
#include <ATen/ops/normal_cpu_dispatch.h>
#include <ATen/ops/uniform_cpu_dispatch.h>
#include <torch/library.h>

#include "kernels/cpu_operators.h"

namespace accel {
namespace {

thread_local int undrawn = 0;

/// Instead of the function kOperator of ATen's.
template <auto kOperator>
at::Tensor& drawn(at::Tensor& self, double first, double second,
                  std::optional<at::Generator> generator) {
  return undrawn > 0 ? self : kOperator(self, first, second, std::move(generator));
}

void stand_in(torch::Library& aten) {
  aten.impl("normal_", &drawn<&at::cpu::normal_>);
  aten.impl("uniform_", &drawn<&at::cpu::uniform_>);
}

}  // namespace

UndrawnWeights::UndrawnWeights() {
  static const torch::Library& for_good = put_before_aten(&stand_in);
  (void)for_good;
  ++undrawn;
}

UndrawnWeights::~UndrawnWeights() {
  --undrawn;
}

}  // namespace accel
