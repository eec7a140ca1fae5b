#include "kernels/choice.h"

#include <gtest/gtest.h>

#include "kernels/cpu_operators.h"

namespace accel::choice_test {
namespace {

TEST(KernelsTest, AreThoseOfTheProcess) {
  use_kernels(Kernels::kFused);
  EXPECT_EQ(kernels(), Kernels::kFused);
  use_kernels(Kernels::kReference);
  EXPECT_EQ(kernels(), Kernels::kReference);
}

TEST(KernelsTest, TensorsWithoutDataUseTheReference) {
  use_kernels(Kernels::kFused);
  EXPECT_FALSE(fakes_fused());
  {
    const ShapesOnly shapes;
    EXPECT_EQ(kernels(), Kernels::kReference);
    EXPECT_TRUE(fakes_fused());
  }
  EXPECT_EQ(kernels(), Kernels::kFused);
  use_kernels(Kernels::kReference);
  const ShapesOnly shapes;
  EXPECT_FALSE(fakes_fused());
}

}  // namespace
}  // namespace accel::choice_test
