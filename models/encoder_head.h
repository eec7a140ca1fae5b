// Heads of encoders of texts: for classes, hidden tokens, labels of tokens, or a span of tokens.
#pragma once

#include <optional>
#include <string>

#include "core/api/data_shape.h"
#include "core/recipe/codec.h"
#include "models/layers/input_spec.h"

namespace accel {

enum class EncoderHead { kClasses, kTokens, kLabels, kSpan };

template <>
struct EnumNames<EncoderHead> {
  static constexpr std::pair<EncoderHead, const char*> kValues[] = {
      {EncoderHead::kClasses, "classes"},
      {EncoderHead::kTokens, "tokens"},
      {EncoderHead::kLabels, "labels"},
      {EncoderHead::kSpan, "span"}};
};

/// Outputs of a token of a span's head: logits of its first and of its last token.
inline constexpr int64_t kSpanOutputs = 2;

/// The head for the type of the targets.
EncoderHead encoder_head_for(const DataShape& data);
/// The head of transformers' class; none for others.
std::optional<EncoderHead> encoder_head_in(const std::string& architecture);
/// The end of the name of transformers' class, such as "ForMaskedLM".
const char* architecture_suffix(EncoderHead head);
/// transformers' class of a model that is trained for `task`, where the class cannot be known from
/// its weights: that of sequence classification with another head.
std::string architecture_for_task(const std::string& architecture, const std::string& task);
TextOutput text_output_of(EncoderHead head);
/// The task of a head; `classes`: of a head for classes.
const char* task_of(EncoderHead head, const char* classes);

}  // namespace accel
