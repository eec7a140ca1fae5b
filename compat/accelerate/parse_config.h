// Text and tree of a config file, before its keys are converted.
#pragma once

#include <string>

#include "core/recipe/node.h"

namespace accel {

/// The file's text. Throws RecipeError when it cannot be read.
std::string config_file_text(const std::string& path);

/// The unconverted tree of a config. Throws RecipeError when it cannot be read or is not a section.
Node parse_config(const std::string& path);

}  // namespace accel
