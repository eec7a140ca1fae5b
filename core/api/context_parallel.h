// Context parallelism: the ranks of an axis divide the sequence of each sample, and exchange keys
// and values in attention.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "core/api/tensor_parallel.h"

namespace accel {

/// Queries, keys and values of this rank's positions, [batch, heads, positions, width]. Keys and
/// values have the same number of heads, a divisor of the queries'.
struct ContextAttention {
  const at::Tensor &query, &key, &value;
  /// Causal: the first position that each query sees, of its text or of its window if that begins
  /// later; int64 [batch or 1, padded length], the same on all ranks. Undefined: the first of all.
  const at::Tensor& starts;
  double dropout = 0;  ///< of attention weights; 0 unless has_whole_scores()
  double softcap = 0;  ///< of AttentionScores; 0 unless has_whole_scores()
  bool is_causal = true;
  /// Not causal: the keys that all queries see, bool [batch or 1, padded length], the same on all
  /// ranks; undefined: all keys.
  at::Tensor visible = {};
};

/// The ranks that divide sequences, as a model's forward pass uses them. All ranks call the same,
/// in the same order, with the same samples.
class ContextRanks {
 public:
  ContextRanks(int64_t rank, int64_t size) : rank_(rank), size_(size) {}
  virtual ~ContextRanks() = default;

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }

  /// Throws Error (kRecipe) for numbers of heads that the ranks cannot divide.
  virtual void check_heads(int64_t heads, int64_t kv_heads) const = 0;
  /// Whether a rank has all scores of a token and head at once, to drop weights and cap scores.
  virtual bool has_whole_scores() const = 0;
  /// The positions of this rank in a sequence of `length`, which is padded so that all ranks have
  /// the same number: int64, ascending, on the CPU.
  virtual at::Tensor own_positions(int64_t length) const = 0;
  /// Attention of this rank's queries to the keys of all ranks, [batch, heads, positions, width]:
  /// within 1e-6 of attention in one process. With gradients.
  virtual at::Tensor attend(const ContextAttention& call) const = 0;
  /// The first position of the sequence of `x`, [batch, positions, width], on all ranks: [batch,
  /// width]. Gradients are summed over the ranks.
  virtual at::Tensor first_position(const at::Tensor& x) const = 0;
  /// Sums over all ranks, in place and without gradients.
  virtual void sum(const at::Tensor& values) const = 0;
  /// Values of this rank's positions, [batch, positions], to those of a whole sequence, [batch,
  /// length], on all ranks; without gradients.
  virtual at::Tensor gather_positions(const at::Tensor& own, int64_t length) const = 0;
  /// See TensorRanks::own_random_stream().
  virtual std::unique_ptr<RandomScope> own_random_stream(at::Device device) const = 0;

  /// Whether passes without gradients are divided too, as those of evaluations.
  bool divides_evaluation() const { return divides_evaluation_; }
  void set_divides_evaluation(bool on) const { divides_evaluation_ = on; }

  /// `length` rounded up so that each rank has the same number of positions.
  int64_t padded_length(int64_t length) const { return own_positions(length).size(0) * size_; }

 private:
  int64_t rank_;
  int64_t size_;
  mutable bool divides_evaluation_ = false;
};

/// Divides the sequences of passes without gradients while it lives.
class DividedEvaluation {
 public:
  /// Null: no rank divides.
  explicit DividedEvaluation(const ContextRanks* ranks) : ranks_(ranks) { set(true); }
  ~DividedEvaluation() { set(false); }
  DividedEvaluation(const DividedEvaluation&) = delete;
  DividedEvaluation& operator=(const DividedEvaluation&) = delete;

 private:
  void set(bool on) const {
    if (ranks_) ranks_->set_divides_evaluation(on);
  }

  const ContextRanks* ranks_;
};

/// A model that supports context parallelism. While gradients are enabled or DividedEvaluation
/// lives, LanguageModel::hidden() and Model::forward() return the positions of this rank alone;
/// else all of them. Outputs per text, without positions, are the same on all ranks.
class ContextParallel {
 public:
  virtual ~ContextParallel() = default;
  /// Called once, after construction. Throws Error (kRecipe) for options that do not support it.
  virtual void divide_sequences(std::shared_ptr<const ContextRanks> ranks) = 0;
  /// The ranks that divide sequences; null: one process.
  virtual const ContextRanks* context_ranks() const = 0;
};

}  // namespace accel
