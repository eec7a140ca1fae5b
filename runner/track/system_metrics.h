// What the machine is doing while a run trains on it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tracker.h"

namespace accel {

/// What this process holds of the machine's memory, in MiB; nothing where the system does not tell.
std::optional<double> resident_mib();

/// The most that it has held so far.
std::optional<double> peak_resident_mib();

/// Processor, memory and disk of this process, and the NVIDIA GPUs where there are any. What cannot
/// be read is left out.
class SystemMetrics {
 public:
  /// `folder` is on the disk whose room is told.
  explicit SystemMetrics(std::string folder);
  ~SystemMetrics();

  /// Since the call before, or since the start:
  ///   system/cpu_percent (100 is one busy core), system/memory_mib, system/disk_free_gib,
  ///   system/gpu0/busy_percent, system/gpu0/memory_mib, .../temperature_celsius, .../power_watts
  std::vector<Measurement> measure();

 private:
  struct Gpus;

  std::string folder_;
  std::unique_ptr<Gpus> gpus_;
  std::chrono::steady_clock::time_point time_;
  double cpu_seconds_;
};

}  // namespace accel
