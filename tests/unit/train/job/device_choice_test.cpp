// Machines without the GPU or the library that a run needs.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/unit/formats/test_bytes.h"
#include "train/job/device.h"

namespace accel::device_choice_test {
namespace {

TEST(DeviceChoiceTest, EachRankNeedsAGpu) {
  require_gpu(3, 4);
  EXPECT_EQ(complaint([] { require_gpu(4, 4); }),
            "local rank 4 has no GPU: this machine has 4\nstart one rank per GPU on each machine");
}

TEST(DeviceChoiceTest, WithoutItsLibraryCudaIsAnErrorOnlyIfTheRecipeNamesIt) {
  const std::string missing = "libtorch_cuda.so: cannot open shared object file";
  EXPECT_EQ(complaint([&] { device_without_cuda(true, missing); }),
            "'accelerator.device' is cuda, but libtorch_cuda.so: cannot open shared object file\n"
            "run 'tools/bootstrap.sh cuda', or use 'device: cpu'");
  testing::internal::CaptureStdout();
  EXPECT_TRUE(device_without_cuda(false, missing).is_cpu());
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "this machine has a GPU, but libtorch_cuda.so: cannot open shared object file: "
            "computing on the CPU "
            "(run 'tools/bootstrap.sh cuda', or use 'device: cpu')\n");
}

TEST(DeviceChoiceTest, ALibraryWithoutADeviceIsRefusedByName) {
  setenv("ACCEL_HOST_DEVICE", "libnone.so", 1);
  EXPECT_TRUE(choose_device(DeviceChoice::kCpu, "all", 0).is_cpu()) << "it is for cuda alone";
  EXPECT_EQ(
      complaint([] { choose_device(DeviceChoice::kCuda, "all", 0); }),
      "ACCEL_HOST_DEVICE is 'libnone.so', which has no device: libnone.so: cannot open shared "
      "object file: No such file or directory\nunset ACCEL_HOST_DEVICE to compute on a GPU");
  unsetenv("ACCEL_HOST_DEVICE");
}

TEST(DeviceChoiceTest, GpuKernelsThatAreMissingAreNamed) {
  EXPECT_EQ(text_without_kernels("libaccel_cuda.so: cannot open shared object file"),
            "accelerator.kernels: libaccel_cuda.so: cannot open shared object file: PyTorch's "
            "kernels compute cross-entropy, LayerNorm, RMSNorm, GELU, SwiGLU and Adam "
            "(run 'tools/bootstrap.sh cuda-kernels' and build again, or use 'kernels: reference')");
}

}  // namespace
}  // namespace accel::device_choice_test
