#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/cpu_target.h"
#include "kernels/cpu_operators.h"

namespace accel::mkl_processor_test {
namespace {

using Detect = int (*)();

/// MKL's number of the kind of processor that it takes kernels for, 0 for any that is not Intel's;
/// null where libtorch computes without MKL.
Detect kind_of_processor() {
  return reinterpret_cast<Detect>(dlsym(RTLD_DEFAULT, "mkl_serv_cpu_detect"));
}

/// Ends the process: MKL looks at the processor once.
[[noreturn]] void exit_with_kind(Kernels kernels) {
  use_kernels(kernels);
  at::mm(at::ones({9, 9}), at::ones({9, 9}));
  std::exit(kind_of_processor()() == 0 ? 10 : 11);
}

class MklProcessorDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kind_of_processor()) GTEST_SKIP() << "this libtorch computes without MKL";
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // each in a process that has computed nothing
  }
};

TEST_F(MklProcessorDeathTest, WithFusedKernelsAvx512IsUsedWhoeverMadeTheProcessor) {
  if (cpu_target() != CpuTarget::kAvx512) GTEST_SKIP() << "this processor has no AVX-512";
  EXPECT_EXIT(exit_with_kind(Kernels::kFused), testing::ExitedWithCode(11), "");
}

TEST_F(MklProcessorDeathTest, WithTheReferenceItIsPyTorchsChoice) {
  const bool is_intel = __builtin_cpu_is("intel") != 0;
  EXPECT_EXIT(exit_with_kind(Kernels::kReference), testing::ExitedWithCode(is_intel ? 11 : 10), "");
}

}  // namespace
}  // namespace accel::mkl_processor_test
