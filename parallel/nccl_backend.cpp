#include "parallel/nccl.h"

#include <c10/cuda/CUDAFunctions.h>

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

namespace {

using WorkNCCL = c10d::ProcessGroupNCCL::WorkNCCL;

/// Without the outputs, as c10d's own watchdog copies it.
class WorkCopy final : public WorkNCCL {
 public:
  explicit WorkCopy(const WorkNCCL& work) : WorkNCCL(work) {}
  /// In a thread without a device, the query would create a context on the first one.
  bool isCompleted() override {
    c10::cuda::set_device(device_.index());
    return WorkNCCL::isCompleted();
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void accel_nccl_work_copy(
    const c10::intrusive_ptr<c10d::Work>& work, c10::intrusive_ptr<c10d::Work>& out) {
  out = c10::make_intrusive<WorkCopy>(static_cast<const WorkNCCL&>(*work));
}
