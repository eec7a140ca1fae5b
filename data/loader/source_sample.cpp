#include "data/loader/source_sample.h"

#include <stdexcept>

#include "data/loader/mixture.h"
#include "data/loader/selected_samples.h"

namespace accel {

SourceSample source_sample(const Dataset& dataset, int64_t index) {
  if (const auto* selected = dynamic_cast<const SelectedSamples*>(&dataset)) {
    return source_sample(selected->source(), selected->row(index));
  }
  if (const Concatenation* parts = parts_of(dataset)) {
    const size_t source = parts->source_of(index);
    return source_sample(*parts->sources()[source], index - parts->offset(source));
  }
  return {&dataset, index};
}

PromptRow prompt_row_of(const Dataset& dataset, int64_t index) {
  const SourceSample sample = source_sample(dataset, index);
  if (const auto* rows = dynamic_cast<const PromptRows*>(sample.dataset)) {
    return rows->prompt_row(sample.index);
  }
  throw std::logic_error("a dataset without prompts");
}

}  // namespace accel
