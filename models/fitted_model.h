// What a model that is built can be used with.
#pragma once

#include "core/data_shape.h"

namespace accel {

class Model;

/// What a model of texts tells.
enum class TextOutput {
  kUnknown,
  kNextToken,    ///< at each place the token behind it, from those before
  kHiddenToken,  ///< at each place its own token, from both sides
  kLabels,       ///< a label of each token
  kWhole,        ///< classes or numbers of the whole text
};

/// A model that knows what fits it, so that the rest can be refused before a run begins.
class FittedModel {
 public:
  virtual ~FittedModel() = default;

  /// Throws Error (kRecipe) when it cannot take such samples; they may be others than those it was
  /// built for.
  virtual void check_samples(const DataShape& data) const = 0;
  virtual TextOutput text_output() const { return TextOutput::kUnknown; }
};

/// As the model's own where it is a FittedModel; another one is taken to fit.
void check_samples(const Model& model, const DataShape& data);
TextOutput text_output(const Model& model);

/// Throws Error (kRecipe) when a sample has more tokens than `longest`.
void check_length(const char* model, int64_t longest, const DataShape& data);
/// Throws Error (kRecipe) unless a sample has the shape `only`, or one of the two is unknown.
void check_one_shape(const char* model, const Shape& only, const DataShape& data);

}  // namespace accel
