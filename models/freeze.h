// Parts of a model that training leaves as they are.
#pragma once

#include <string>
#include <vector>

#include "core/diagnostic.h"

namespace accel {

class Model;

/// Takes the parameters whose names fit one of `patterns` out of training: they get no gradient,
/// and a batch norm of which nothing is trained keeps its statistics and normalises by them. Throws
/// RecipeError, at `where`, for patterns that match nothing and when nothing would be trained.
void freeze_parameters(Model& model, const std::vector<std::string>& patterns, const Span& where);

}  // namespace accel
