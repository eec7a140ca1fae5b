#include "track/system_metrics.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "core/base/shared_library.h"

namespace accel {
namespace {

constexpr double kMebibyte = 1 << 20;
constexpr double kGibibyte = 1 << 30;

double cpu_seconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void add_disk(std::vector<Measurement>& values, const std::string& folder) {
  struct statvfs disk = {};
  if (::statvfs(folder.c_str(), &disk) != 0) return;
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  values.emplace_back("system/disk_free_gib", free / kGibibyte);
}

}  // namespace

std::optional<double> resident_mib() {
  std::ifstream in("/proc/self/statm");
  int64_t all = 0, resident = 0;
  if (!(in >> all >> resident)) return std::nullopt;
  const double bytes = static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  return bytes / kMebibyte;
}

std::optional<double> peak_resident_mib() {
  // ru_maxrss of getrusage() is inherited from the parent process through exec().
  std::ifstream in("/proc/self/status");
  constexpr std::string_view kPeak = "VmHWM:";
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(kPeak)) continue;
    return std::strtod(line.c_str() + kPeak.size(), nullptr) * 1024 / kMebibyte;
  }
  return std::nullopt;
}

/// NVIDIA's management library (NVML), part of the driver.
struct SystemMetrics::Gpus {
  using Device = void*;
  struct Use {
    unsigned gpu, memory;
  };
  struct Memory {
    unsigned long long total, free, used;
  };

  int (*start)() = nullptr;
  int (*stop)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, Device*) = nullptr;
  int (*use)(Device, Use*) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*temperature)(Device, int, unsigned*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;
  std::vector<Device> devices;

  Gpus() {
    SharedLibrary nvml("libnvidia-ml.so.1");
    const bool complete = nvml.find("nvmlInit_v2", start) && nvml.find("nvmlShutdown", stop) &&
                          nvml.find("nvmlDeviceGetCount_v2", count) &&
                          nvml.find("nvmlDeviceGetHandleByIndex_v2", handle) &&
                          nvml.find("nvmlDeviceGetUtilizationRates", use) &&
                          nvml.find("nvmlDeviceGetMemoryInfo", memory) &&
                          nvml.find("nvmlDeviceGetTemperature", temperature) &&
                          nvml.find("nvmlDeviceGetPowerUsage", power);
    started = complete && start() == 0;
    unsigned found = 0;
    if (!started || count(&found) != 0) return;
    constexpr unsigned kMostGpus = 64;
    for (unsigned i = 0; i < std::min(found, kMostGpus); ++i) {
      Device device = nullptr;
      if (handle(i, &device) == 0) devices.push_back(device);
    }
  }
  ~Gpus() {
    if (started) stop();
  }
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;

  void add_to(std::vector<Measurement>& values) const {
    for (size_t i = 0; i < devices.size(); ++i) {
      const std::string gpu = "system/gpu" + std::to_string(i) + '/';
      Use busy = {};
      if (use(devices[i], &busy) == 0) values.emplace_back(gpu + "busy_percent", busy.gpu);
      Memory taken = {};
      if (memory(devices[i], &taken) == 0) {
        values.emplace_back(gpu + "memory_mib", static_cast<double>(taken.used) / kMebibyte);
      }
      unsigned number = 0;
      constexpr int kOnTheChip = 0;
      if (temperature(devices[i], kOnTheChip, &number) == 0) {
        values.emplace_back(gpu + "temperature_celsius", number);
      }
      if (power(devices[i], &number) == 0) values.emplace_back(gpu + "power_watts", number * 1e-3);
    }
  }

  bool started = false;
};

SystemMetrics::SystemMetrics(std::string folder)
    : folder_(std::move(folder)),
      gpus_(std::make_unique<Gpus>()),
      time_(std::chrono::steady_clock::now()),
      cpu_seconds_(cpu_seconds()) {}

SystemMetrics::~SystemMetrics() = default;

std::vector<Measurement> SystemMetrics::measure() {
  const auto now = std::chrono::steady_clock::now();
  const double busy = cpu_seconds();
  const double seconds = std::chrono::duration<double>(now - time_).count();
  std::vector<Measurement> values;
  values.emplace_back("system/cpu_percent", 100 * (busy - cpu_seconds_) / std::max(seconds, 1e-9));
  time_ = now;
  cpu_seconds_ = busy;
  if (const auto memory = resident_mib()) values.emplace_back("system/memory_mib", *memory);
  add_disk(values, folder_);
  gpus_->add_to(values);
  return values;
}

}  // namespace accel
