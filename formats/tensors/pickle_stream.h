// Several pickles in a row.
#pragma once

#include "formats/tensors/pickle.h"

namespace accel {

/// As read_pickle() for the pickle that `bytes` begin with, which it removes from them.
Value take_pickle(ByteSpan& bytes, const PickleRules& rules, MemoryBudget& budget);

}  // namespace accel
