// Accelerate's gather, reduce and related operations over a Communicator.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/api/batch.h"
#include "core/api/ranks.h"
#include "parallel/communicator.h"

namespace accel {

/// Concatenates the tensors of all ranks along dimension 0, as `gather`: 0-d becomes 1-d, any
/// strides. All ranks have the same shape.
at::Tensor gather(Communicator& group, const at::Tensor& tensor);

/// Rows of one micro-batch.
struct MicroBatchRows {
  int64_t micro_batch_index;
  at::Tensor rows;  ///< [rows, ...]
};

/// Concatenates the rows of all ranks' micro-batches by micro-batch index, on all ranks. A rank may
/// have none. Types and all sizes but the first are the same.
at::Tensor gather_micro_batches(Communicator& group, const std::vector<MicroBatchRows>& own,
                                int64_t num_micro_batches);

/// The texts of all ranks, by rank.
std::vector<std::string> gather_texts(Communicator& group, const std::string& text);

/// The text of rank 0 on all ranks.
std::string broadcast_text(Communicator& group, const std::string& text);

/// Element-wise reduction over all ranks, as `reduce`; not in place.
at::Tensor reduce(Communicator& group, const at::Tensor& tensor, Reduce how);

/// Pads the tensor to the largest size along `dim` of all ranks, as `pad_across_processes`, with
/// `pad_index` at the end, or at the start if `pad_first`.
at::Tensor pad_across_processes(Communicator& group, const at::Tensor& tensor, int64_t dim = 0,
                                double pad_index = 0, bool pad_first = false);

/// True on all ranks when true on any, as `check_trigger`.
bool any_rank(Communicator& group, bool here, const char* purpose);

/// Sums element-wise; a number of one rank, zero on the others, is exact.
void sum_over_ranks(Communicator& group, std::span<double> numbers, const char* purpose);

class GroupRanks final : public Ranks {
 public:
  /// `group` outlives it.
  explicit GroupRanks(Communicator& group) : group_(group) {}

  int64_t rank() const override { return group_.rank(); }
  int64_t world() const override { return group_.world(); }
  at::Tensor gather(const at::Tensor& tensor) override;
  at::Tensor reduce(const at::Tensor& tensor, Reduce how) override;
  at::Tensor pad_across_processes(const at::Tensor& tensor, const RankPadding& padding) override;
  at::Tensor broadcast(const at::Tensor& tensor) override;
  bool any(bool here) override;
  void wait_for_everyone() override;

 private:
  Communicator& group_;
};

/// Copies of the numbers and tensors of each rank, by rank; empty on other ranks than 0. Names,
/// types and shapes may differ by rank; texts are not gathered.
std::vector<StateDict> gather_states(Communicator& group, const StateDict& own);

}  // namespace accel
