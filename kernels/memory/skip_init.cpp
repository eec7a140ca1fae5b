#include "kernels/memory/skip_init.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/normal_cpu_dispatch.h>
#include <ATen/ops/uniform_cpu_dispatch.h>
#include <torch/library.h>

#include <limits>

#include "core/base/environment.h"
#include "kernels/cpu_operators.h"

namespace accel {
namespace {

/// Tests set it: whatever reads a weight before the checkpoint replaces it then computes NaN.
constexpr auto kNanVariable = "ACCEL_RUN_NAN_INIT";

thread_local int undrawn = 0;
thread_local bool fills_with_nan = false;

at::Tensor& skipped(at::Tensor& self) {
  return fills_with_nan ? self.fill_(std::numeric_limits<double>::quiet_NaN()) : self;
}

/// Replaces the ATen function kOperator.
template <auto kOperator>
at::Tensor& drawn(at::Tensor& self, double first, double second,
                  std::optional<at::Generator> generator) {
  return undrawn > 0 ? skipped(self) : kOperator(self, first, second, std::move(generator));
}

void stub(torch::Library& aten) {
  aten.impl("normal_", &drawn<&at::cpu::normal_>);
  aten.impl("uniform_", &drawn<&at::cpu::uniform_>);
}

}  // namespace

SkipInit::SkipInit() {
  static const torch::Library& for_good = register_cpu_overrides(&stub);
  (void)for_good;
  fills_with_nan = environment_variable(kNanVariable).has_value();
  ++undrawn;
}

SkipInit::~SkipInit() {
  --undrawn;
}

bool SkipInit::is_active() {
  return undrawn > 0;
}

}  // namespace accel
