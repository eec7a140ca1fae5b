// CPU, memory, disk and GPU metrics of a run.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/api/tracker.h"

namespace accel {

/// Resident memory of this process in MiB; null where the system does not report it.
std::optional<double> resident_mib();

/// Its peak.
std::optional<double> peak_resident_mib();

/// CPU, memory and disk of this process, and NVIDIA GPUs. Omits values that cannot be read.
class SystemMetrics {
 public:
  /// `folder` is on the disk whose free space is reported.
  explicit SystemMetrics(std::string folder);
  ~SystemMetrics();

  /// Since the previous call, or the start:
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
