// Connects a task whose loss has margins to the pairs of the data.
#pragma once

#include "train/job/job.h"

namespace accel {

/// Sets the margins of a task that uses them; other tasks stay. Throws RecipeError for data in
/// which some pairs have a margin and others none.
void build_margins(Job& job);

}  // namespace accel
