// Frozen models of tasks: teachers and references.
#pragma once

#include "core/api/model.h"
#include "core/recipe/registry.h"

namespace accel {

/// Adds an error if the model of the option `key` could have weights and is given none. A frozen
/// model is not part of checkpoints: with random weights each start would draw another one.
void want_trained_weights(const Ref<Model>& model, const char* key, const Node& node,
                          Reading& reading);

}  // namespace accel
