#include "parallel/nccl.h"

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

extern "C" __attribute__((visibility("default"))) void accel_nccl_backend(
    const c10::intrusive_ptr<c10d::Store>& store, const accel::NcclRequest& request,
    c10::intrusive_ptr<c10d::Backend>& out) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = request.timeout;
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, request.rank, request.world,
                                                           std::move(options));
  // Connects now, so that network errors are reported before training.
  group->eagerConnectSingleDevice(
      at::Device(at::kCUDA, static_cast<at::DeviceIndex>(request.device)));
  out = std::move(group);
}
