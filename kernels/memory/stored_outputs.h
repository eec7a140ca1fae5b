// Outputs that selective activation checkpointing stores.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <vector>

namespace accel {

/// Outputs of a forward pass that take long to compute for their size, for recomputation to take
/// instead: those of matrix products, convolutions and fused attention without dropout, and of
/// store_output(). Not those of batched matrix products: attention weights grow with the square of
/// the sequence length (Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
/// Models", 2022).
class StoredOutputs {
 public:
  /// Number of calls whose outputs are stored.
  size_t size() const { return calls_.size(); }
  /// Frees those of later calls.
  void truncate(size_t size) { calls_.resize(size); }

 private:
  friend class StoredOutputsScope;
  struct Output {
    c10::IValue value;
    uint32_t version = 0;  ///< of a tensor
    bool is_unchanged() const;
  };
  using Call = std::vector<Output>;
  std::vector<Call> calls_;
};

/// Makes PyTorch's operators use StoredOutputsScope: call it before threads compute.
void register_stored_operators();

/// While it lives, calls of this thread store their outputs or take them from a pass that did.
/// Outputs that were taken before, or changed in place since, are computed again.
class StoredOutputsScope {
 public:
  enum class Pass { kStore, kTake };
  /// Null `outputs`: nothing is stored, not in an outer scope either. Needs
  /// register_stored_operators().
  StoredOutputsScope(StoredOutputs* outputs, Pass pass);
  ~StoredOutputsScope();
  StoredOutputsScope(const StoredOutputsScope&) = delete;
  StoredOutputsScope& operator=(const StoredOutputsScope&) = delete;

  /// `compute()`, which replaces the last values of the stack, `arguments`, by results; or the
  /// stored results.
  void run(torch::jit::Stack& stack, size_t arguments, c10::function_ref<void()> compute);
  /// Null: none, or nothing is stored.
  static StoredOutputsScope* current();

 private:
  bool take(torch::jit::Stack& stack, size_t arguments);
  void store(const torch::jit::Stack& stack, size_t first);

  StoredOutputs* outputs_;
  Pass pass_;
  size_t next_ = 0;
  StoredOutputsScope* outer_;
};

/// `compute()`, or its stored results. For products and collectives that are not operators of
/// PyTorch; `compute` draws no random numbers and builds no graph.
std::vector<at::Tensor> store_outputs(c10::function_ref<std::vector<at::Tensor>()> compute);
at::Tensor store_output(c10::function_ref<at::Tensor()> compute);

}  // namespace accel
