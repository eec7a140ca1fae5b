#include "runner/job/device.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "core/log.h"

namespace accel {
namespace {

constexpr auto kCudaLibrary = "libtorch_cuda.so";
constexpr auto kHowToGetIt = "run 'tools/bootstrap.sh cuda', or take 'device: cpu'";

/// Whether a driver has made a device file, as in every machine or container with a GPU.
bool has_nvidia_driver() {
  return std::filesystem::exists("/dev/nvidiactl");
}

/// Why libtorch has no part for GPUs here; empty: it is loaded. CUDA's own libraries lie beside.
std::string load_cuda() {
  // Deterministic products of matrices want a workspace of fixed size, from the first one on.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  return dlopen(kCudaLibrary, RTLD_NOW | RTLD_GLOBAL) ? "" : dlerror();
}

int64_t count_gpus() {
  return at::globalContext().getAcceleratorHooksInterface(at::kCUDA).deviceCount();
}

[[noreturn]] void refuse_device(const std::string& message, const std::string& hint) {
  throw Error(ExitCode::kRecipe, message, hint);
}

at::Device make_current(int64_t local_rank, int64_t gpus) {
  if (local_rank >= gpus) {
    refuse_device("rank " + std::to_string(local_rank) +
                      " of this machine finds no GPU of its own: " +
                      (gpus == 1 ? "there is 1" : "there are " + std::to_string(gpus)),
                  "start as many ranks on a machine as it has GPUs");
  }
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(local_rank));
  const c10::impl::VirtualGuardImpl guard(at::kCUDA);
  guard.setDevice(device);
  return device;
}

std::string gpu_name(int index) {
  using GetDevice = int (*)(int*, int);
  using GetName = int (*)(char*, int, int);
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) return {};
  const auto get_device = reinterpret_cast<GetDevice>(dlsym(driver, "cuDeviceGet"));
  const auto get_name = reinterpret_cast<GetName>(dlsym(driver, "cuDeviceGetName"));
  int device = 0;
  char name[256] = {};
  if (!get_device || !get_name || get_device(&device, index) != 0 ||
      get_name(name, sizeof name, device) != 0) {
    return {};
  }
  return name;
}

}  // namespace

at::Device choose_device(DeviceChoice choice, const std::string& gpu_ids, int64_t local_rank) {
  if (choice == DeviceChoice::kCpu) return at::kCPU;
  if (gpu_ids != "all") setenv("CUDA_VISIBLE_DEVICES", gpu_ids.c_str(), 1);
  const bool required = choice == DeviceChoice::kCuda;
  if (!required && !has_nvidia_driver()) return at::kCPU;
  const std::string missing = load_cuda();
  if (!missing.empty()) {
    if (required) refuse_device("'accelerator.device' is cuda, but " + missing, kHowToGetIt);
    say("this machine has a GPU, but " + missing + ": computing on the CPU (" + kHowToGetIt + ")");
    return at::kCPU;
  }
  const int64_t gpus = count_gpus();
  if (gpus > 0) return make_current(local_rank, gpus);
  if (required) {
    refuse_device("'accelerator.device' is cuda, but no GPU is found here",
                  "look at 'nvidia-smi' and CUDA_VISIBLE_DEVICES, or take 'device: cpu'");
  }
  return at::kCPU;
}

std::string device_text(at::Device device) {
  if (device.is_cpu()) return "cpu";
  const std::string name = device.is_cuda() ? gpu_name(device.index()) : "";
  const std::string kind = c10::DeviceTypeName(device.type(), true);
  return name.empty() ? kind : kind + " (" + name + ")";
}

}  // namespace accel
