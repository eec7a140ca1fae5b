// Gradients under expert parallelism.
#pragma once

#include <memory>
#include <vector>

#include "core/api/parameter.h"
#include "parallel/strategy.h"

namespace accel {

struct ExpertStrategies {
  /// Runs the passes, and shares the gradients of parameters that no expert has.
  std::unique_ptr<Strategy> others;
  /// Sums the gradients of this rank's experts over the ranks with the same; null: `others` does.
  std::unique_ptr<Strategy> experts;
};

/// For parameters that Mesh::expert, `group`, divides by Axis::kExpert, and others. An expert has
/// the gradients of the tokens of all ranks of `group`. Shares of experts on other ranks, `absent`,
/// are empty and get empty gradients where those of this rank have some, so that optimizers of all
/// ranks count the same updates. The norm counts each expert once.
std::unique_ptr<Strategy> make_expert_parallel(ExpertStrategies strategies,
                                               const std::vector<Parameter>& parameters,
                                               std::shared_ptr<Communicator> group);

}  // namespace accel
