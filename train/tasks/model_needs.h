// Demands of a task on the recipe's model, checked before a run.
#pragma once

#include "core/recipe/node.h"

namespace accel {

/// Implemented by tasks that compare the model with itself without its adapter.
class AdapterReference {
 public:
  virtual ~AdapterReference() = default;
  /// False: the task has its own reference model, or none.
  virtual bool uses_adapter_reference() const = 0;
};

/// Implemented by tasks that need whole sequences and whole logits on each rank.
class WholeSequences {
 public:
  virtual ~WholeSequences() = default;
};

}  // namespace accel
