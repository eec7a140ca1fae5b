// The tree of modules of a model that exists.
#pragma once

#include "models/placement/module_tree.h"

namespace accel {

class Model;

/// Names and bytes of modules, parameters and buffers; blocks are the classes that are not split.
/// The bytes of a quantized weight are those of its codes and scales, which are placed together.
PlacedModel placed_model(Model& model);

}  // namespace accel
