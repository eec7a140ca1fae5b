// Retention policy of checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace accel {

/// Keeps the union of the newest and the best checkpoints.
struct KeepPolicy {
  enum class Mode { kMin, kMax };

  int64_t last = 2;      ///< number of newest ones; 0 keeps all
  int64_t best = 0;      ///< number of best ones; of equal ones the older
  std::string metric{};  ///< of the best ones: "eval/accuracy"
  Mode mode = Mode::kMin;
};

struct KeepCandidate {
  int64_t step = 0;
  std::optional<double> metric;  ///< null or NaN: never among the best
};

/// The steps to delete. `candidates` ascend by step; the last one is always kept.
std::vector<int64_t> steps_to_delete(const std::vector<KeepCandidate>& candidates,
                                     const KeepPolicy& policy);

}  // namespace accel
