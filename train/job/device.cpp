#include "train/job/device.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/shared_library.h"
#include "core/base/text.h"
#include "kernels/choice.h"
#include "kernels/load_cuda_kernels.h"

namespace accel {
namespace {

constexpr auto kCudaLibrary = "libtorch_cuda.so";
constexpr auto kKernelsHint =
    "run 'tools/bootstrap.sh cuda-kernels' and build again, or use 'kernels: reference'";
constexpr auto kCudaHint = "run 'tools/bootstrap.sh cuda', or use 'device: cpu'";

/// Whether the driver's device file exists, as on every machine or container with a GPU.
bool has_nvidia_driver() {
  return std::filesystem::exists("/dev/nvidiactl");
}

/// Loads libtorch's CUDA library; returns the error, or "".
std::string load_cuda() {
  return SharedLibrary(kCudaLibrary, SharedLibrary::Symbols::kGlobal).error();
}

int64_t count_gpus() {
  return at::globalContext().getAcceleratorHooksInterface(at::kCUDA).deviceCount();
}

[[noreturn]] void refuse_device(const std::string& message, const std::string& hint) {
  throw Error(ExitCode::kRecipe, message, hint);
}

at::Device make_current(int64_t local_rank, int64_t gpus) {
  require_gpu(local_rank, gpus);
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(local_rank));
  const c10::impl::VirtualGuardImpl guard(at::kCUDA);
  guard.setDevice(device);
  return device;
}

std::string gpu_name(int index) {
  SharedLibrary driver("libcuda.so.1");
  int (*get_device)(int*, int) = nullptr;
  int (*get_name)(char*, int, int) = nullptr;
  const bool complete =
      driver.find("cuDeviceGet", get_device) && driver.find("cuDeviceGetName", get_name);
  int device = 0;
  char name[256] = {};
  if (!complete || get_device(&device, index) != 0 || get_name(name, sizeof name, device) != 0) {
    return {};
  }
  return name;
}

/// The device of a test's library, in place of CUDA's.
at::Device load_host_device(const std::string& path, int64_t local_rank) {
  SharedLibrary library(path, SharedLibrary::Symbols::kGlobal);
  int (*device_type)() = nullptr;
  if (!library || !library.find("accel_host_device_type", device_type)) {
    refuse_device(text("ACCEL_HOST_DEVICE is '{}', which has no device: {}", path, library.error()),
                  "unset ACCEL_HOST_DEVICE to compute on a GPU");
  }
  const auto type = static_cast<at::DeviceType>(device_type());
  const at::Device device(type, static_cast<at::DeviceIndex>(local_rank));
  c10::impl::VirtualGuardImpl(type).setDevice(device);
  warn("ACCEL_HOST_DEVICE: the device is a test's, in the memory of the host");
  return device;
}

}  // namespace

void require_gpu(int64_t local_rank, int64_t gpus) {
  if (local_rank < gpus) return;
  refuse_device(text("local rank {} has no GPU: this machine has {}", local_rank, gpus),
                "start one rank per GPU on each machine");
}

at::Device device_without_cuda(bool required, const std::string& missing) {
  if (required) refuse_device(text("'accelerator.device' is cuda, but {}", missing), kCudaHint);
  say(text("this machine has a GPU, but {}: computing on the CPU ({})", missing, kCudaHint));
  return at::kCPU;
}

at::Device choose_device(DeviceChoice choice, const std::string& gpu_ids, int64_t local_rank) {
  if (choice == DeviceChoice::kCpu) return at::kCPU;
  if (gpu_ids != "all") setenv("CUDA_VISIBLE_DEVICES", gpu_ids.c_str(), 1);
  const bool required = choice == DeviceChoice::kCuda;
  const std::optional<std::string> library = environment_variable("ACCEL_HOST_DEVICE");
  if (required && library) return load_host_device(*library, local_rank);
  if (!required && !has_nvidia_driver()) return at::kCPU;
  const std::string missing = load_cuda();
  if (!missing.empty()) return device_without_cuda(required, missing);
  const int64_t gpus = count_gpus();
  if (gpus > 0) return make_current(local_rank, gpus);
  if (required) {
    refuse_device("'accelerator.device' is cuda, but no GPU was found",
                  "check 'nvidia-smi' and CUDA_VISIBLE_DEVICES, or use 'device: cpu'");
  }
  return at::kCPU;
}

void load_gpu_kernels(at::Device device) {
  if (kernels() != Kernels::kFused) return;
  const std::string problem = load_cuda_kernels(device);
  if (!problem.empty()) say(text_without_kernels(problem));
}

std::string text_without_kernels(const std::string& problem) {
  return text(
      "accelerator.kernels: {}: PyTorch's kernels compute cross-entropy, LayerNorm, RMSNorm, "
      "GELU, SwiGLU and Adam ({})",
      problem, kKernelsHint);
}

std::string device_text(at::Device device) {
  if (device.is_cpu()) return "cpu";
  const std::string name = device.is_cuda() ? gpu_name(device.index()) : "";
  const std::string kind = c10::DeviceTypeName(device.type(), true);
  return name.empty() ? kind : kind + " (" + name + ")";
}

}  // namespace accel
