// Expert parallelism: the experts of each layer are divided over ranks with different samples,
// which exchange tokens (Lepikhin et al., "GShard", 2020).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace accel {

/// Rows that each rank sends to this one, of each of this rank's experts.
using ExpertCounts = std::vector<std::vector<int64_t>>;

/// The ranks that divide the experts of a model, as its forward pass uses them. Each has equally
/// many experts, in their order. All ranks call the same, in the same order.
class ExpertRanks {
 public:
  ExpertRanks(int64_t rank, int64_t size) : rank_(rank), size_(size) {}
  virtual ~ExpertRanks() = default;

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  /// Experts of each rank, of `num_experts`, a multiple of size().
  int64_t experts_per_rank(int64_t num_experts) const { return num_experts / size_; }
  /// The first one of this rank.
  int64_t first_expert(int64_t num_experts) const { return rank_ * experts_per_rank(num_experts); }

  /// From the rows of this rank for each of all experts to those of all ranks for each of this
  /// rank's: [rank][expert].
  virtual ExpertCounts exchange_counts(const std::vector<int64_t>& by_expert,
                                       at::Device device) const = 0;
  /// Sends `sent[r]` rows of `x` to rank r and receives `received[r]` rows from it, both in the
  /// order of ranks. Gradients take the way back.
  virtual at::Tensor exchange(const at::Tensor& x, const std::vector<int64_t>& sent,
                              const std::vector<int64_t>& received) const = 0;

 private:
  int64_t rank_;
  int64_t size_;
};

/// A model with experts that supports expert parallelism. It gets its ranks by
/// ModelContext::experts and creates the parameters of all experts. After its construction those
/// of experts on other ranks are empty.
class ExpertParallel {
 public:
  virtual ~ExpertParallel() = default;
  /// Of each layer with experts; 0: none.
  virtual int64_t num_experts() const = 0;
  /// The expert that has the parameter of this name, adapters of LoRA too; null: none has it.
  virtual std::optional<int64_t> expert_of(const std::string& parameter) const = 0;
};

}  // namespace accel
