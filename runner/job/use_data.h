// The data that a trained model is used on, in place of what its recipe evaluates on.
#pragma once

#include <string>
#include <vector>

#include "core/data_shape.h"
#include "core/node.h"
#include "core/registry.h"

namespace accel {

/// The one dataset that `words`, options such as "path=test.csv", change: the first eval dataset of
/// a resolved recipe, or, where it has none, the first of the training data. With a path it is read
/// whole, whatever part the recipe took, and classes are numbered as in `trained`, unless the words
/// say otherwise. One that is given another type keeps the options that the type has too, as
/// `registry` tells. Throws RecipeError for words that are none.
Node dataset_with(const Node& recipe, const std::vector<std::string>& words,
                  const DataShape& trained, const Registry& registry);

/// The recipe with this as its eval data.
Node with_eval_data(Node recipe, Node dataset);

}  // namespace accel
