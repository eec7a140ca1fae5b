#include "models/layers/skip_init.h"

#include <ATen/core/Generator.h>
#include <ATen/ops/normal_cpu_dispatch.h>
#include <ATen/ops/uniform_cpu_dispatch.h>
#include <torch/library.h>

#include "kernels/cpu_operators.h"

namespace accel {
namespace {

thread_local int undrawn = 0;

/// Replaces the ATen function kOperator.
template <auto kOperator>
at::Tensor& drawn(at::Tensor& self, double first, double second,
                  std::optional<at::Generator> generator) {
  return undrawn > 0 ? self : kOperator(self, first, second, std::move(generator));
}

void stub(torch::Library& aten) {
  aten.impl("normal_", &drawn<&at::cpu::normal_>);
  aten.impl("uniform_", &drawn<&at::cpu::uniform_>);
}

}  // namespace

SkipInit::SkipInit() {
  static const torch::Library& for_good = register_cpu_overrides(&stub);
  (void)for_good;
  ++undrawn;
}

SkipInit::~SkipInit() {
  --undrawn;
}

}  // namespace accel
