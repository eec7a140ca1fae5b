// Checks that the input files of a recipe exist.
#pragma once

#include <string>
#include <vector>

#include "core/recipe/registry.h"

namespace accel {

/// An input path of a component that cannot be read.
struct MissingInput {
  std::string option;  ///< "path"
  Span where;
  std::string message;
  std::string hint;
};

/// InputPaths of a component of `kind` that do not exist or are a folder instead of a file, and
/// data sets of `accel-run download` that were not downloaded. Other problems of options are not
/// reported.
std::vector<MissingInput> missing_inputs(const Node& component, const std::string& kind,
                                         const Registry& registry);

/// Reports the missing inputs of all components of a composed recipe. `sections`: the top-level
/// options.
void report_missing_inputs(const Node& recipe, const std::vector<FieldInfo>& sections,
                           Reading& reading);

}  // namespace accel
