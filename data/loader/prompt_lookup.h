// Rows of prompts in selected and combined datasets.
#pragma once

#include "core/api/dataset.h"
#include "core/api/prompt_rows.h"

namespace accel {

/// The row of the sample at `index` of a dataset of prompts, of selected samples of one, or of
/// several combined. Throws std::logic_error for another dataset.
PromptRow prompt_row_of(const Dataset& dataset, int64_t index);

}  // namespace accel
