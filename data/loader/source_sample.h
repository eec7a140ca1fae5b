// Samples of selected and combined datasets in the datasets that read them.
#pragma once

#include <cstdint>

#include "core/api/dataset.h"
#include "core/api/prompt_rows.h"

namespace accel {

/// A sample of a dataset that is neither a selection nor a combination of others.
struct SourceSample {
  const Dataset* dataset;
  int64_t index;
};

/// The sample at `index` of a dataset, of selected samples of one, or of several combined.
SourceSample source_sample(const Dataset& dataset, int64_t index);

/// The row of a sample of prompts. Throws std::logic_error for another dataset.
PromptRow prompt_row_of(const Dataset& dataset, int64_t index);

}  // namespace accel
