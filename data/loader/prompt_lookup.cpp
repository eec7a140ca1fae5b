#include "data/loader/prompt_lookup.h"

#include <stdexcept>

#include "data/loader/mixture.h"
#include "data/loader/selected_samples.h"

namespace accel {

PromptRow prompt_row_of(const Dataset& dataset, int64_t index) {
  if (const auto* rows = dynamic_cast<const PromptRows*>(&dataset)) return rows->prompt_row(index);
  if (const auto* selected = dynamic_cast<const SelectedSamples*>(&dataset)) {
    return prompt_row_of(selected->source(), selected->row(index));
  }
  if (const Concatenation* parts = parts_of(dataset)) {
    const size_t source = parts->source_of(index);
    return prompt_row_of(*parts->sources()[source], index - parts->offset(source));
  }
  throw std::logic_error("a dataset without prompts");
}

}  // namespace accel
