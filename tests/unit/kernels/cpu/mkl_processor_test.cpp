#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sqrt.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "core/base/cpu_target.h"
#include "kernels/cpu_operators.h"

namespace accel::mkl_processor_test {

/// Calls of MKL's detection of the processor for vector functions.
std::atomic<int> vector_detections = 0;

}  // namespace accel::mkl_processor_test

/// Replaces MKL's function, and calls it.
extern "C" __attribute__((visibility("default"))) int mkl_serv_vml_cpu_detect() {
  ++accel::mkl_processor_test::vector_detections;
  return reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "mkl_serv_vml_cpu_detect"))();
}

namespace accel::mkl_processor_test {
namespace {

using Detect = int (*)();

/// MKL's number of the kind of processor that it takes kernels for, 0 for any that is not Intel's;
/// null where libtorch computes without MKL.
Detect kind_of_processor() {
  return reinterpret_cast<Detect>(dlsym(RTLD_DEFAULT, "mkl_serv_cpu_detect"));
}

/// Ends the process: MKL looks at the processor once.
[[noreturn]] void exit_with_kind(Kernels kernels, MklInstructions instructions) {
  use_kernels(kernels);
  set_mkl_instructions(instructions);
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

TEST_F(MklProcessorDeathTest, WithFusedKernelsTheProcessorIsTakenForIntels) {
  if (cpu_target() == CpuTarget::kAny) GTEST_SKIP() << "this processor has no AVX2";
  EXPECT_EXIT(exit_with_kind(Kernels::kFused, MklInstructions::kAuto), testing::ExitedWithCode(11),
              "");
}

TEST_F(MklProcessorDeathTest, WithTheReferenceOrNativeInstructionsItIsPyTorchsChoice) {
  const testing::ExitedWithCode wanted(__builtin_cpu_is("intel") != 0 ? 11 : 10);
  EXPECT_EXIT(exit_with_kind(Kernels::kReference, MklInstructions::kAuto), wanted, "");
  EXPECT_EXIT(exit_with_kind(Kernels::kFused, MklInstructions::kNative), wanted, "");
}

/// Ends the process with the detections of the processor during the first parallel vector function.
[[noreturn]] void exit_with_detections(bool initialized) {
  if (initialized) initialize_kernels(Kernels::kFused, MklInstructions::kAuto);
  constexpr int64_t kElements = 1 << 16;
  const int before = vector_detections;
  at::sqrt(at::ones({kElements}));
  std::exit(vector_detections - before);
}

TEST_F(MklProcessorDeathTest, VectorFunctionsDetectTheProcessorBeforeSeveralThreadsCompute) {
  const auto detects = [](int code) { return WIFEXITED(code) && WEXITSTATUS(code) > 0; };
  EXPECT_EXIT(exit_with_detections(false), detects, "");
  EXPECT_EXIT(exit_with_detections(true), testing::ExitedWithCode(0), "");
}

TEST(MklInstructionsTest, ActOnProcessorsOfOtherMakers) {
  const bool other = __builtin_cpu_is("intel") == 0 && cpu_target() != CpuTarget::kAny;
  use_kernels(Kernels::kFused);
  EXPECT_EQ(enables_intel_kernels_of_mkl(), other);
  set_mkl_instructions(MklInstructions::kNative);
  EXPECT_FALSE(enables_intel_kernels_of_mkl());
  set_mkl_instructions(MklInstructions::kAuto);
  use_kernels(Kernels::kReference);
  EXPECT_FALSE(enables_intel_kernels_of_mkl());
}

}  // namespace
}  // namespace accel::mkl_processor_test
