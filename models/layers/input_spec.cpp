#include "models/layers/input_spec.h"

#include "core/api/model.h"
#include "core/api/packed_sequences.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "models/layers/packed_texts.h"

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

void check_texts(const char* model, bool packed, const DataShape& data) {
  if (data.segments == 0 || is_packed(data) == packed) return;
  if (packed) {
    throw Error(
        ExitCode::kRecipe,
        text("the model '{}' is built for packed texts, but a sample of the data is a pair", model),
        "use data of single texts");
  }
  throw Error(ExitCode::kRecipe,
              text("the model '{}' is not built for packed texts, but the data is packed", model),
              "leave 'pack' out of the data");
}

}  // namespace accel
