// Graphs of the device: the work itself, with the rules of CUDA's while it is recorded.
#include "kernels/device_graph.h"
#include "tests/host_device/host_device.h"

namespace accel {
namespace {

class HostDeviceGraph final : public DeviceGraph {
 public:
  /// Unlike CUDA's it runs the work, which launch() does not repeat then.
  void record(const std::function<void()>& work) override {
    const RecordingScope scope;
    work();
    has_run_ = true;
  }
  void launch(const std::function<void()>& work) override {
    if (!has_run_) work();
    has_run_ = false;
  }

 private:
  bool has_run_ = false;
};

}  // namespace
}  // namespace accel

extern "C" void accel_device_graph(std::unique_ptr<accel::DeviceGraph>& out) {
  out = std::make_unique<accel::HostDeviceGraph>();
}
