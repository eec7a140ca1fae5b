#include "models/layers/language_head.h"

namespace accel {

at::Tensor LanguageHead::weight() const {
  const FrozenWeight* const own = frozen();
  return adapter().widened_weight(own ? own->values() : whole_weight());
}

void LanguageHead::hold(FrozenWeight frozen) {
  if (is_tied()) {
    tied_->hold(std::move(frozen));
  } else {
    layer_->hold(std::move(frozen));
  }
}

}  // namespace accel
