#include "models/layers/token_logits.h"

#include "models/layers/language_head.h"
#include "models/layers/logit_softcap.h"
#include "models/layers/tensor_parallel.h"

namespace accel {
namespace {

/// Null: the head is not quantized, or an adapter changes its weight.
const FrozenWeight* frozen_head(const LanguageModel& model) {
  const auto* decoder = dynamic_cast<const HasLanguageHead*>(&model);
  const std::optional<LanguageHead> head = decoder ? decoder->language_head() : std::nullopt;
  return head && !head->adapter().is_on() ? head->frozen() : nullptr;
}

}  // namespace

at::Tensor token_logits(LanguageModel& model, const at::Tensor& hidden) {
  const double softcap = logit_softcap(model);
  if (const FrozenWeight* frozen = frozen_head(model)) {
    return softcapped(frozen->product(hidden, {}), softcap);
  }
  const auto* divided = dynamic_cast<const TensorParallel*>(&model);
  const DividedVocabulary vocabulary = divided ? divided->vocabulary() : DividedVocabulary();
  return softcapped(vocabulary_logits(vocabulary, hidden, model.head_weight()), softcap);
}

int64_t head_rows(LanguageModel& model) {
  const FrozenWeight* const frozen = frozen_head(model);
  return frozen ? frozen->rows() : model.head_weight().size(0);
}

}  // namespace accel
