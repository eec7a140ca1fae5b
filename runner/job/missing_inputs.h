// Whether the files that a recipe names are on this machine.
#pragma once

#include <vector>

#include "core/registry.h"

namespace accel {

/// Reports each InputPath of a composed recipe at which there is nothing, and each data set that is
/// taken from where `accel-run download` puts it and was not downloaded. `sections` are the options
/// of a whole recipe. What is wrong with options otherwise is not told here.
void report_missing_inputs(const Node& recipe, const std::vector<FieldInfo>& sections,
                           Reading& reading);

}  // namespace accel
