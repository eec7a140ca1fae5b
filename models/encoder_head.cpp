#include "models/encoder_head.h"

#include <string_view>

namespace accel {
namespace {

struct HeadFacts {
  EncoderHead head;
  const char* suffix;
  TextOutput output;
  const char* task;  ///< null: by the targets
};

constexpr HeadFacts kHeads[] = {
    {EncoderHead::kClasses, "ForSequenceClassification", TextOutput::kWhole, nullptr},
    {EncoderHead::kTokens, "ForMaskedLM", TextOutput::kHiddenToken, "masked_lm"},
    {EncoderHead::kLabels, "ForTokenClassification", TextOutput::kLabels, "token_classification"},
    {EncoderHead::kSpan, "ForQuestionAnswering", TextOutput::kSpan, "question_answering"}};

const HeadFacts& facts_of(EncoderHead head) {
  for (const HeadFacts& item : kHeads) {
    if (item.head == head) return item;
  }
  return kHeads[0];
}

}  // namespace

EncoderHead encoder_head_for(const DataShape& data) {
  if (data.target == Shape{1, kSpanOutputs} && data.target_type == DType::kI64) {
    return EncoderHead::kSpan;
  }
  if (data.input.empty() || data.target != data.input) return EncoderHead::kClasses;
  return data.classes > 0 ? EncoderHead::kLabels : EncoderHead::kTokens;
}

std::optional<EncoderHead> encoder_head_in(const std::string& architecture) {
  for (const HeadFacts& item : kHeads) {
    if (architecture.ends_with(item.suffix)) return item.head;
  }
  return std::nullopt;
}

const char* architecture_suffix(EncoderHead head) {
  return facts_of(head).suffix;
}

std::string architecture_for_task(const std::string& architecture, const std::string& task) {
  const std::string_view classes = architecture_suffix(EncoderHead::kClasses);
  if (!architecture.ends_with(classes)) return architecture;
  const std::string name = architecture.substr(0, architecture.size() - classes.size());
  for (const HeadFacts& item : kHeads) {
    if (item.task && task == item.task) return name + item.suffix;
  }
  return architecture;
}

TextOutput text_output_of(EncoderHead head) {
  return facts_of(head).output;
}

const char* task_of(EncoderHead head, const char* classes) {
  const char* const task = facts_of(head).task;
  return task ? task : classes;
}

}  // namespace accel
