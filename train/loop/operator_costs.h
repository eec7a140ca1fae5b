// Operators of a profile, aggregated by cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accel {

/// One operator call, on a CPU thread or a device stream.
struct ProfiledCall {
  std::string name;
  std::string device;  ///< "cpu", "cuda"
  std::string shapes;  ///< of the inputs; empty: not recorded
  uint64_t lane = 0;   ///< thread or stream; calls of one lane nest or are disjoint
  int64_t start = 0;   ///< nanoseconds
  int64_t end = 0;
};

/// Calls with the same name, device and shapes.
struct OperatorCost {
  std::string name;
  std::string device;
  std::string shapes;
  int64_t calls = 0;
  double self_ms = 0;   ///< without nested calls
  double total_ms = 0;  ///< with nested calls
};

/// Sorted by self time, descending.
std::vector<OperatorCost> operator_costs(std::vector<ProfiledCall> calls);

/// CSV with the columns operator, device, shapes, calls, self_ms, total_ms.
std::string operator_csv(const std::vector<OperatorCost>& costs);

/// A header and at most `most` rows for a terminal.
std::vector<std::string> operator_lines(const std::vector<OperatorCost>& costs, int64_t most);

}  // namespace accel
