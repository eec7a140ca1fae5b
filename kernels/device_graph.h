// Work of a device that is recorded once and launched as a whole, as CUDA graphs are.
#pragma once

#include <functional>
#include <memory>

#include "core/api/batch.h"

namespace accel {

class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Captures the launches of `work` on a separate stream. Memory allocated by it is the graph's
  /// from then on: later calls of launch() write to it. At most once. Throws c10::Error where work
  /// cannot be recorded, such as a wait for the device; the device may not be used after that.
  virtual void record(const std::function<void()>& work) = 0;
  /// Launches the recorded work on the current stream, with the device's next random numbers.
  /// `work` would launch the same.
  virtual void launch(const std::function<void()>& work) = 0;
};

/// Throws Error (kRecipe) where the device or this build has no graphs.
std::unique_ptr<DeviceGraph> make_device_graph(at::Device device);

/// The symbol of libaccel_cuda_graph.so and of test devices.
constexpr auto kDeviceGraphSymbol = "accel_device_graph";
using DeviceGraphFunction = void(std::unique_ptr<DeviceGraph>& out);

}  // namespace accel
