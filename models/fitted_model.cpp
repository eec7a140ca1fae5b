#include "models/fitted_model.h"

#include "core/error.h"
#include "core/model.h"

namespace accel {

void check_samples(const Model& model, const DataShape& data) {
  if (const auto* fitted = dynamic_cast<const FittedModel*>(&model)) fitted->check_samples(data);
}

TextOutput text_output(const Model& model) {
  const auto* fitted = dynamic_cast<const FittedModel*>(&model);
  return fitted ? fitted->text_output() : TextOutput::kUnknown;
}

void check_length(const char* model, int64_t longest, const DataShape& data) {
  if (data.input.empty() || data.input[0] <= longest) return;
  throw Error(ExitCode::kRecipe,
              std::string("the model '") + model + "' sees at most " + std::to_string(longest) +
                  " tokens, but a sample of the data may have " + std::to_string(data.input[0]),
              "make the samples shorter, or give the model a larger 'context'");
}

void check_one_shape(const char* model, const Shape& only, const DataShape& data) {
  if (only.empty() || data.input.empty() || data.input == only) return;
  throw Error(ExitCode::kRecipe,
              std::string("the model '") + model + "' is made for samples " + to_string(only) +
                  ", but a sample of the data is " + to_string(data.input),
              "add a transform that makes both alike, such as 'resize'");
}

}  // namespace accel
