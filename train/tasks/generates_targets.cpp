#include "train/tasks/generates_targets.h"

namespace accel {

std::vector<SampledCompletion> sample_targets(CompletionSampler& sampler,
                                              const CompletionOptions& options,
                                              const Batch& batch) {
  std::vector<SampledPrompt> sources;
  const at::Tensor inputs = batch.inputs.to(at::kCPU).contiguous();
  for (int64_t row = 0; row < batch.size(); ++row) {
    const int64_t length =
        batch.lengths.defined() ? batch.lengths[row].item<int64_t>() : inputs.size(1);
    const auto* first = inputs[row].const_data_ptr<int64_t>();
    sources.push_back({.tokens = {first, first + length}});
  }
  return sampler.sample(sources, options);
}

}  // namespace accel
