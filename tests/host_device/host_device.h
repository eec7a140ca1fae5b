// A device whose memory is the host's, so that what is written for GPUs runs where there is none.
//
// Operators refuse tensors of two devices, as CUDA's do, and compute with the CPU's kernels, so
// that a job there gives the bits that it gives on the CPU. Generators are the device's own. It
// takes libtorch's place for HPUs, a kind of device that this build of libtorch knows but cannot
// drive.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace accel {

/// The devices there are, each as good as the other.
constexpr c10::DeviceIndex kHostDevices = 2;
inline c10::Device host_device(c10::DeviceIndex index = 0) {
  return {c10::DeviceType::HPU, index};
}

/// Operators that have run on such devices, so that a test sees that they did.
int64_t host_device_calls();

/// How often the host has waited for all work that it had launched: for a number, a copy that is
/// not asynchronous, a stream, or an event behind which it had launched nothing.
int64_t host_device_waits();

/// While it exists, reading the device's memory throws, as it does while CUDA records a graph.
class RecordingScope {
 public:
  RecordingScope();
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
};

}  // namespace accel
