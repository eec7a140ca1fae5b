#include "runner/loop/stopwatch.h"

#include <cmath>

namespace accel {

double Stopwatch::total() const {
  double sum = 0;
  for (const double seconds : seconds_) sum += seconds;
  return sum;
}

std::string Stopwatch::summary() const {
  static constexpr const char* kNames[] = {"data",      "forward", "backward", "sync",
                                           "optimizer", "eval",    "save",     "other"};
  std::string out;
  for (size_t i = 0; i < seconds_.size(); ++i) {
    const long percent = std::lround(100.0 * seconds_[i] / total());
    if (seconds_[i] <= 0 || percent == 0) continue;
    out +=
        (out.empty() ? "" : ", ") + std::string(kNames[i]) + " " + std::to_string(percent) + " %";
  }
  return out;
}

}  // namespace accel
