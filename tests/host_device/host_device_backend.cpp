#include "tests/host_device/host_device_backend.h"

#include <ATen/ops/from_blob.h>

#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace accel {
namespace {

/// Gloo on the same memory.
class HostDeviceBackend final : public c10d::Backend {
 public:
  explicit HostDeviceBackend(c10::intrusive_ptr<c10d::Backend> gloo)
      : c10d::Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)) {}

  const std::string getBackendName() const override { return "host-device"; }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    std::vector<at::Tensor> seen = {seen_by_host(tensors.at(0))};
    return gloo_->allreduce(seen, options);
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    std::vector<at::Tensor> seen = {seen_by_host(tensors.at(0))};
    return gloo_->broadcast(seen, options);
  }
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& out, at::Tensor& in,
                                                 const c10d::AllgatherOptions& options) override {
    at::Tensor seen_out = seen_by_host(out), seen_in = seen_by_host(in);
    return gloo_->_allgather_base(seen_out, seen_in, options);
  }

 private:
  static at::Tensor seen_by_host(const at::Tensor& tensor) {
    return at::from_blob(
        tensor.mutable_data_ptr(), tensor.sizes(), [tensor](void*) {},
        tensor.options().device(at::kCPU).requires_grad(false));
  }

  c10::intrusive_ptr<c10d::Backend> gloo_;
};

}  // namespace

BackendMaker host_device_backend() {
  return [](const StorePtr& store, const GroupOptions& options) -> BackendPtr {
    return c10::make_intrusive<HostDeviceBackend>(make_gloo_backend(store, options));
  };
}

}  // namespace accel
