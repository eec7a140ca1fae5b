#include "kernels/kernels.h"

#include <gtest/gtest.h>

#include <thread>

namespace accel {
namespace {

TEST(KernelsTest, ThoseOfTheProcessUnlessAThreadWantsTheReference) {
  use_kernels(Kernels::kFused);
  EXPECT_EQ(kernels(), Kernels::kFused);
  {
    const ReferenceKernels outer;
    {
      const ReferenceKernels inner;
      EXPECT_EQ(kernels(), Kernels::kReference);
    }
    EXPECT_EQ(kernels(), Kernels::kReference);
    Kernels there = Kernels::kReference;
    std::thread([&] { there = kernels(); }).join();
    EXPECT_EQ(there, Kernels::kFused);
  }
  EXPECT_EQ(kernels(), Kernels::kFused);
  use_kernels(Kernels::kReference);
  EXPECT_EQ(kernels(), Kernels::kReference);
}

TEST(KernelsTest, WhereThereAreOnlyShapesTheReferenceStandsForThem) {
  use_kernels(Kernels::kFused);
  EXPECT_FALSE(stands_for_fused());
  {
    const ShapesOnly shapes;
    EXPECT_EQ(kernels(), Kernels::kReference);
    EXPECT_TRUE(stands_for_fused());
    const ReferenceKernels reference;
    EXPECT_FALSE(stands_for_fused());
  }
  EXPECT_EQ(kernels(), Kernels::kFused);
  use_kernels(Kernels::kReference);
  const ShapesOnly shapes;
  EXPECT_FALSE(stands_for_fused());
}

}  // namespace
}  // namespace accel
