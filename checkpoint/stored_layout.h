// Names, order and layout of a model's tensors in checkpoint files, where these are those of a
// Python module that differs from the built-in one, such as transformers'.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/train_state.h"
#include "core/base/array.h"
#include "formats/tensors/safetensors.h"

namespace accel {

/// A tensor of the Python module: one tensor of the model, or several of equal shape.
struct StoredTensor {
  std::string name;
  Shape shape;
  /// Names of the model's tensors: one, or if `stacked` a list per index of the first dimension,
  /// whose tensors are concatenated along their first one.
  std::vector<std::vector<std::string>> parts;
  bool transposed = false;  ///< the model's tensor is [shape[1], shape[0]]
  bool stacked = false;
};

struct StoredLayout {
  std::vector<std::string> names;     ///< of the model's parameters and buffers, in their order
  std::vector<StoredTensor> tensors;  ///< in the module's order, with all of `names`
};

/// Converts model and optimizer to the layout: transposed tensors are views, fused ones copies. Of
/// parts of a fused tensor with different counts of updates it has the largest count, and zeros for
/// state that a part lacks. Parts in different groups of the optimizer keep their names there.
void to_stored(const StoredLayout& layout, TrainState& state);

/// The inverse, by views. Tensors that the layout does not know are left as they are.
void from_stored(const StoredLayout& layout, TrainState& state);

/// The arrays of a file in the model's own layout. Transposed ones are copies.
std::vector<NamedArray> own_arrays(const StoredLayout& layout,
                                   const std::vector<NamedArray>& stored);

/// The module's names of parameter groups, in the module's order in each group.
std::vector<std::vector<std::string>> stored_groups(
    const StoredLayout& layout, const std::vector<std::vector<std::string>>& groups);

/// Whether tensors of a Python checkpoint have the names and shapes of the layout.
bool is_stored_as(const StoredLayout& layout, const std::vector<Parameter>& model);

/// Whether names and shapes are the model's own, so that only the order tells the layouts apart.
bool only_reorders(const StoredLayout& layout);

/// Whether order, names and shapes are the model's own.
bool is_identity(const StoredLayout& layout);

/// Whether all state of the shape of a parameter, such as moments, has the layout's shapes.
bool fits_moments(const StoredLayout& layout, const OptimizerState& state);

}  // namespace accel
