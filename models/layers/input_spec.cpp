#include "models/layers/input_spec.h"

#include "core/api/model.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {

void validate_input(const Model& model, const DataShape& data) {
  if (const auto* fitted = dynamic_cast<const InputSpec*>(&model)) fitted->validate_input(data);
}

TextOutput text_output(const Model& model) {
  const auto* fitted = dynamic_cast<const InputSpec*>(&model);
  return fitted ? fitted->text_output() : TextOutput::kUnknown;
}

void check_length(const char* model, int64_t longest, const DataShape& data) {
  if (data.input.empty() || data.input[0] <= longest) return;
  throw Error(
      ExitCode::kRecipe,
      text("the model '{}' supports at most {} tokens, but a sample of the data may have {}", model,
           longest, data.input[0]),
      "shorten the samples, or raise the model's 'max_seq_len'");
}

void check_one_shape(const char* model, const Shape& only, const DataShape& data) {
  if (only.empty() || data.input.empty() || data.input == only) return;
  throw Error(ExitCode::kRecipe,
              text("the model '{}' is built for samples {}, but a sample of the data is {}", model,
                   to_string(only), to_string(data.input)),
              "add a transform that makes both alike, such as 'resize'");
}

}  // namespace accel
