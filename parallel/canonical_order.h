// The order in which a canonical reduction adds the micro-batches of a rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "parallel/strategy.h"

namespace accel {

/// A gradient for each parameter, undefined where it has none.
using Gradients = std::vector<at::Tensor>;

/// The sum; the other one where one is undefined.
at::Tensor sum_of_gradients(const at::Tensor& a, const at::Tensor& b);
void add_gradients(Gradients& sum, const Gradients& more);

/// The sum of `leaf(rank)` over all ranks, added by `add(sum, more)` in the upper part of the tree.
template <class Leaf, class Add>
auto tree_sum(int64_t world, const Leaf& leaf, const Add& add, int64_t first = 0,
              int64_t stride = 1) {
  if (stride == world) return leaf(first);
  auto sum = tree_sum(world, leaf, add, first, 2 * stride);
  add(sum, tree_sum(world, leaf, add, first + stride, 2 * stride));
  return sum;
}

/// Adds the gradients of this rank's micro-batches by the lower part of a binary tree over all
/// micro-batches: i and i + count/2, and so on. Holds up to one sum per level.
class CanonicalOrder {
 public:
  /// `seed`, with step and micro-batch, seeds the random numbers of a pass. Throws std::logic_error
  /// unless the number of ranks is a power of two.
  CanonicalOrder(uint64_t seed, int64_t rank, int64_t world);

  void begin(const StepLayout& layout);
  /// As Strategy::micro_batch_at().
  size_t micro_batch_at(size_t k) const { return order_[k]; }
  /// Seeds the generator.
  void before_pass() const;
  void after_pass(Gradients made);
  /// The sum over this rank's micro-batches; empty where it has none. Seeds the generator, so that
  /// later random numbers do not depend on the assignment of micro-batches to ranks.
  Gradients finish();

 private:
  /// An instruction on a stack of sums: push the gradients of a pass, push nothing, add the top two
  /// entries, or run a pass that does not count.
  struct Instruction {
    enum class Kind { kPass, kNone, kAdd, kIdle } kind;
    int64_t index = 0;  ///< of the micro-batch that kPass runs
  };

  void compile(int64_t first, int64_t stride);
  void run_to_next_pass();
  void seed_micro_batch(int64_t index) const;

  uint64_t seed_;
  int64_t rank_;
  int64_t world_;
  StepLayout layout_;
  std::vector<Instruction> program_;
  std::vector<size_t> order_;    ///< of this rank's micro-batches
  std::vector<Gradients> sums_;  ///< the stack
  size_t next_ = 0;              ///< next instruction
};

}  // namespace accel
