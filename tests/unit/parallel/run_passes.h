// The passes of an update as a step runs them.
#pragma once

#include <cstddef>

#include "parallel/strategy.h"

namespace accel {

/// `pass(i)` runs forward and backward of this rank's `i`-th micro-batch.
template <class Pass>
void run_passes(Strategy& strategy, const StepLayout& layout, const Pass& pass) {
  strategy.begin(layout);
  for (size_t k = 0; k < layout.own.size(); ++k) {
    strategy.before_pass(k + 1 == layout.own.size());
    pass(strategy.micro_batch_at(k));
    strategy.after_pass();
  }
  strategy.finish();
}

}  // namespace accel
