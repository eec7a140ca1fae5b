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

/// Implemented by tasks that need whole sequences on each rank.
class WholeSequences {
 public:
  virtual ~WholeSequences() = default;
  /// False: the ranks of `tp` may divide the vocabulary of the logits.
  virtual bool needs_whole_logits() const { return true; }
};

/// Implemented by tasks that may compare the samples of a micro-batch with each other.
class ComparesSamples {
 public:
  virtual ~ComparesSamples() = default;
  virtual bool compares_samples() const = 0;
};

/// Implemented by tasks that may add noise to the embeddings of whole sequences.
class AddsEmbeddingNoise {
 public:
  virtual ~AddsEmbeddingNoise() = default;
  virtual bool adds_embedding_noise() const = 0;
};

/// Implemented by tasks whose loss may launch the same work in each step, for batches of one shape:
/// it waits for no result, and no number of the host in it changes, so that it can be recorded.
class HasFixedPasses {
 public:
  virtual ~HasFixedPasses() = default;
  virtual bool has_fixed_passes() const = 0;
};

}  // namespace accel
