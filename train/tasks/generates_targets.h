// Tasks that generate the targets of an evaluation with the trained model.
#pragma once

#include <memory>
#include <vector>

#include "core/api/batch.h"
#include "core/api/completion_sampler.h"

namespace accel {

class GeneratesTargets {
 public:
  virtual ~GeneratesTargets() = default;
  /// Whether evaluations generate; false: they only compute the loss.
  virtual bool generates_targets() const = 0;
  /// How targets are generated, in evaluations and predictions.
  virtual CompletionOptions target_options() const = 0;
  /// Called once, before the first evaluation, where generates_targets().
  virtual void set_sampler(std::shared_ptr<CompletionSampler> sampler) = 0;
};

/// The target of each source of a batch.
std::vector<SampledCompletion> sample_targets(CompletionSampler& sampler,
                                              const CompletionOptions& options, const Batch& batch);

}  // namespace accel
