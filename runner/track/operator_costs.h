// Which operators take the time of a profiled window.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accel {

/// One call, on a thread of the processor or a stream of a device.
struct ProfiledCall {
  std::string name;
  std::string device;  ///< "cpu", "cuda"
  std::string shapes;  ///< of its inputs; empty: not recorded
  uint64_t lane = 0;   ///< thread or stream: calls of one lane nest or follow one another
  int64_t start = 0;   ///< nanoseconds
  int64_t end = 0;
};

/// All calls of one name, device and shapes.
struct OperatorCost {
  std::string name;
  std::string device;
  std::string shapes;
  int64_t calls = 0;
  double self_ms = 0;   ///< without what it called
  double total_ms = 0;  ///< with it
};

/// The costliest by itself first.
std::vector<OperatorCost> operator_costs(std::vector<ProfiledCall> calls);

/// "operator,device,shapes,calls,self_ms,total_ms" and a line for each.
std::string operator_csv(const std::vector<OperatorCost>& costs);

/// A head and at most `most` lines for a terminal.
std::vector<std::string> operator_lines(const std::vector<OperatorCost>& costs, int64_t most);

}  // namespace accel
