// Memory of the test's process.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <fstream>

namespace accel {

inline constexpr int64_t kMib = 1 << 20;

/// Resident, in bytes, with pages of files.
inline int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096;
}

/// Page faults so far that read no file.
inline int64_t page_faults() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

}  // namespace accel
