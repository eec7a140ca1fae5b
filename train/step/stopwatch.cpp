#include "train/step/stopwatch.h"

#include <cmath>

namespace accel {
namespace {

constexpr const char* kPhaseNames[] = {"data",      "forward", "backward", "sync",
                                       "optimizer", "eval",    "save",     "other"};

}  // namespace

double Stopwatch::total() const {
  double sum = 0;
  for (const double seconds : seconds_) sum += seconds;
  return sum;
}

std::vector<std::pair<std::string, double>> Stopwatch::phases() const {
  std::vector<std::pair<std::string, double>> out;
  for (size_t i = 0; i < seconds_.size(); ++i) out.emplace_back(kPhaseNames[i], seconds_[i]);
  return out;
}

std::string Stopwatch::summary() const {
  std::string out;
  for (size_t i = 0; i < seconds_.size(); ++i) {
    const long percent = std::lround(100.0 * seconds_[i] / total());
    if (seconds_[i] <= 0 || percent == 0) continue;
    out += (out.empty() ? "" : ", ") + std::string(kPhaseNames[i]) + " " + std::to_string(percent) +
           " %";
  }
  return out;
}

}  // namespace accel
