// Checks that the columns which a recipe names are in its tables and JSON Lines.
#pragma once

#include "core/recipe/registry.h"

namespace accel {

/// Reports columns of csv, tsv and jsonl datasets that their files lack, at their places in a
/// composed recipe, and delimiters that the recipe must name. Reads the first lines of each file;
/// files that cannot be read are reported when the data is opened.
void report_missing_columns(const Node& recipe, Reading& reading);

}  // namespace accel
