// A growing file per metric, however many there are.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "runner/track/append_file.h"

namespace accel {

/// Keeps few files open at a time. Failures are IoErrors.
class MetricFiles {
 public:
  /// The file at `path`, to be appended to now: the next call may close it.
  AppendFile& at(const std::string& path);
  void flush(Flush how);

 private:
  std::map<std::string, std::unique_ptr<AppendFile>> open_;
  std::set<std::string> unsynced_;  ///< closed since the last durable flush
};

}  // namespace accel
