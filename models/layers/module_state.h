// Parameters and buffers of modules by name; training mode and freezing.
#pragma once

#include <string>
#include <vector>

#include "core/api/batch.h"
#include "core/recipe/diagnostic.h"

namespace accel {

class Block;
class Model;

/// Trainable and frozen parameters in registration order, with PyTorch's dotted names. A shared
/// tensor appears once, under its first name.
std::vector<Parameter> parameters_of(Model& model);

/// Buffers, such as running statistics, likewise.
std::vector<Parameter> buffers_of(Model& model);

/// A block and the parameters that it alone uses.
struct BlockParameters {
  Block* block;
  std::vector<Parameter> parameters;  ///< named as by parameters_of()
};

/// The outermost blocks of the model that have such parameters, in registration order. A parameter
/// tied to one outside its block is in none.
std::vector<BlockParameters> blocks_of(Model& model);

/// Names, as by parameters_of(), of the weights of linear layers and convolutions that no other
/// module shares: autocast casts them wherever they are read.
std::vector<std::string> autocast_weights_of(Model& model);

/// Moves parameters and buffers in place.
void move_to(Model& model, at::Device device);
/// Buffers alone.
void move_buffers_to(Model& model, at::Device device);

/// Sets training mode. A batch norm whose parameters are all frozen stays in evaluation mode.
void set_training(Model& model, bool training);
bool is_training(Model& model);

/// Freezes the parameters that match `patterns`: they get no gradient, and a batch norm without
/// trainable parameters uses its running statistics. Throws RecipeError, at `where`, for patterns
/// without a match and if no trainable parameter remains.
void freeze_parameters(Model& model, const std::vector<std::string>& patterns, const Span& where);

}  // namespace accel
