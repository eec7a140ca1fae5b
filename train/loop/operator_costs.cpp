#include "train/loop/operator_costs.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <tuple>

#include "core/base/metric_names.h"
#include "track/values.h"

namespace accel {
namespace {

constexpr double kMillisecond = 1e6;  // nanoseconds

/// Nanoseconds of each call without nested calls. `calls` are sorted by lane, start and, for equal
/// starts, descending duration.
std::vector<int64_t> self_times(const std::vector<ProfiledCall>& calls) {
  std::vector<int64_t> self(calls.size());
  std::vector<size_t> open;
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto contains = [&](const ProfiledCall& outer) {
      return outer.lane == calls[i].lane && outer.device == calls[i].device &&
             calls[i].start < outer.end;
    };
    while (!open.empty() && !contains(calls[open.back()])) open.pop_back();
    self[i] = calls[i].end - calls[i].start;
    if (!open.empty()) self[open.back()] -= self[i];
    open.push_back(i);
  }
  return self;
}

std::string milliseconds_text(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.3f", value);
  return text.data();
}

}  // namespace

std::vector<OperatorCost> operator_costs(std::vector<ProfiledCall> calls) {
  std::sort(calls.begin(), calls.end(), [](const ProfiledCall& a, const ProfiledCall& b) {
    return std::tuple(a.device, a.lane, a.start, -a.end) <
           std::tuple(b.device, b.lane, b.start, -b.end);
  });
  const std::vector<int64_t> self = self_times(calls);
  std::map<std::tuple<std::string, std::string, std::string>, OperatorCost> by_key;
  for (size_t i = 0; i < calls.size(); ++i) {
    const ProfiledCall& call = calls[i];
    OperatorCost& cost = by_key[{readable_operator(call.name), call.device, call.shapes}];
    ++cost.calls;
    cost.self_ms += static_cast<double>(self[i]) / kMillisecond;
    cost.total_ms += static_cast<double>(call.end - call.start) / kMillisecond;
  }
  std::vector<OperatorCost> costs;
  for (auto& [key, cost] : by_key) {
    std::tie(cost.name, cost.device, cost.shapes) = key;
    costs.push_back(std::move(cost));
  }
  std::stable_sort(costs.begin(), costs.end(), [](const OperatorCost& a, const OperatorCost& b) {
    return a.self_ms > b.self_ms;
  });
  return costs;
}

std::string operator_csv(const std::vector<OperatorCost>& costs) {
  std::string out = csv_line({"operator", "device", "shapes", "calls", "self_ms", "total_ms"});
  for (const OperatorCost& cost : costs) {
    out += csv_line({cost.name, cost.device, cost.shapes, std::to_string(cost.calls),
                     milliseconds_text(cost.self_ms), milliseconds_text(cost.total_ms)});
  }
  return out;
}

std::vector<std::string> operator_lines(const std::vector<OperatorCost>& costs, int64_t most) {
  double all = 0;
  for (const OperatorCost& cost : costs) all += cost.self_ms;
  std::vector<std::string> lines = {"   self ms    self   total ms    calls  operator"};
  for (const OperatorCost& cost : costs) {
    if (static_cast<int64_t>(lines.size()) > most) break;
    std::array<char, 96> text;
    std::snprintf(text.data(), text.size(), "%10.3f  %4.1f %%  %9.3f  %7ld  ", cost.self_ms,
                  all > 0 ? 100 * cost.self_ms / all : 0, cost.total_ms,
                  static_cast<long>(cost.calls));
    std::string line = text.data() + cost.name;
    if (cost.device != "cpu") line.append(" on ").append(cost.device);
    if (!cost.shapes.empty()) line.append(" ").append(cost.shapes);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace accel
