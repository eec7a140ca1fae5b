// Whether the files that a recipe names are on this machine.
#pragma once

#include <string>
#include <vector>

#include "core/registry.h"

namespace accel {

/// What a component names and cannot read.
struct MissingInput {
  std::string option;  ///< "path"
  Span where;
  std::string message;
  std::string hint;
};

/// Each InputPath of a component of `kind` at which there is nothing, or a folder where a file is
/// wanted, and each data set that is taken from where `accel-run download` puts it and was not
/// downloaded. What is wrong with options otherwise is not told here.
std::vector<MissingInput> missing_inputs(const Node& component, const std::string& kind,
                                         const Registry& registry);

/// Reports those of all components of a composed recipe. `sections` are the options of a whole
/// recipe.
void report_missing_inputs(const Node& recipe, const std::vector<FieldInfo>& sections,
                           Reading& reading);

}  // namespace accel
