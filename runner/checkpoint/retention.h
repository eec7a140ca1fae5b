// Which checkpoints to delete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace accel {

/// Which checkpoints stay: the union of the two rules.
struct KeepPolicy {
  enum class Mode { kMin, kMax };

  int64_t last = 2;  ///< the newest ones; 0 keeps all
  int64_t best = 0;  ///< the best ones; of equal ones the older
  std::string by{};  ///< the metric that says which are best: "eval/accuracy"
  Mode mode = Mode::kMin;
};

struct KeepCandidate {
  int64_t step = 0;
  std::optional<double> metric;  ///< null: not evaluated, never best; so is NaN
};

/// Steps that the policy does not keep. `candidates` ascend by step; the last one always stays.
std::vector<int64_t> steps_to_delete(const std::vector<KeepCandidate>& candidates,
                                     const KeepPolicy& policy);

}  // namespace accel
