// Placement of a model's modules on devices, with the decisions of Accelerate's
// infer_auto_device_map() and get_balanced_memory() (accelerate 1.15, utils/modeling.py).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/placement/module_tree.h"

namespace accel {

inline constexpr auto kCpuDevice = "cpu";
inline constexpr auto kDiskDevice = "disk";

/// The bytes that weights may use on a device: "0", "1", ... are GPUs.
struct DeviceLimit {
  std::string device;
  int64_t bytes = 0;

  bool is_gpu() const { return device != kCpuDevice && device != kDiskDevice; }
  bool operator==(const DeviceLimit&) const = default;
};

/// GPUs by number, then the CPU, then the disk.
using MaxMemory = std::vector<DeviceLimit>;

/// Sorts the devices into that order.
MaxMemory in_device_order(MaxMemory limits);

struct PlacementOptions {
  /// Buffers of modules on the CPU and the disk do not stay on a GPU.
  bool offload_buffers = false;
  /// Searches for a smaller module where a device would get none.
  bool fallback_allocation = false;
  /// Modules of one device are named by their common parent.
  bool clean_result = true;
};

struct DeviceMap {
  /// By full name, "" is the model.
  std::map<std::string, std::string> devices;
  /// Bytes that are used, with the reserve for the largest layer on devices that were full.
  std::map<std::string, int64_t> used;
  /// Buffers of modules on the CPU and the disk that no GPU has room for; 0: none.
  int64_t misplaced_buffers = 0;
  /// By device that got no module: the bytes for the first one.
  std::map<std::string, int64_t> needed;

  /// The device of a module or tensor, by the nearest name; "": there is none.
  std::string device_of(const std::string& name) const;
};

/// Fills the devices in their order; the last one is the disk, which has no limit. The first GPU
/// and the CPU keep room for the largest remaining layer. Tied parameters share a device where one
/// has room for them.
DeviceMap infer_device_map(const PlacedModel& model, const MaxMemory& limits,
                           const PlacementOptions& options = {});

/// The limits of `auto` and `balanced`, with equal shares of the model on the GPUs; `low_zero`: as
/// little as possible on GPU 0. Throws std::invalid_argument for `low_zero` with GPUs that are not
/// 0, 1, ..., n - 1.
MaxMemory balanced_memory(const PlacedModel& model, MaxMemory limits, bool low_zero);

}  // namespace accel
