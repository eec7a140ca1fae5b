// Input specification of a built model.
#pragma once

#include "core/api/data_shape.h"

namespace accel {

class Model;

/// The output of a text model.
enum class TextOutput {
  kUnknown,
  kNextToken,       ///< next token at each position, causal
  kHiddenToken,     ///< masked tokens, bidirectional
  kLabels,          ///< a label of each token
  kSpan,            ///< logits of the first and the last token of an answer
  kWhole,           ///< classes or numbers of the whole text
  kTargetSequence,  ///< next token at each position of a target sequence
};

/// Implemented by models that can validate data before a run.
class InputSpec {
 public:
  virtual ~InputSpec() = default;

  /// Throws Error (kRecipe) for unsupported samples; they may differ from those that the model was
  /// built for.
  virtual void validate_input(const DataShape& data) const = 0;
  virtual TextOutput text_output() const { return TextOutput::kUnknown; }
};

/// Calls the model's InputSpec; models without one accept any input.
void validate_input(const Model& model, const DataShape& data);
TextOutput text_output(const Model& model);

/// Throws Error (kRecipe) if samples may have more tokens than `longest`.
void check_length(const char* model, int64_t longest, const DataShape& data);
/// Throws Error (kRecipe) unless samples have the shape `only`, or one of the two is unknown.
void check_one_shape(const char* model, const Shape& only, const DataShape& data);

}  // namespace accel
