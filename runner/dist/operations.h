// What Accelerate calls gather, reduce and the like, made of a Communicator's collectives.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/ranks.h"
#include "runner/dist/communicator.h"

namespace accel {

/// The tensors of all ranks one after another along dimension 0, as `gather`: 0-d ones become 1-d,
/// any strides are fine. All ranks have the same shape.
at::Tensor gather(Communicator& group, const at::Tensor& tensor);

/// Some rows of what ranks put together.
struct RowsOfPart {
  int64_t part;     ///< from 0
  at::Tensor rows;  ///< [rows, ...]
};

/// The rows of all parts in the parts' order, on all ranks. Each of `parts` parts is one rank's; a
/// rank may have none. Sizes but the first, and types, are the same everywhere.
at::Tensor gather_parts(Communicator& group, const std::vector<RowsOfPart>& own, int64_t parts);

/// A text of each rank, by rank.
std::vector<std::string> gather_texts(Communicator& group, const std::string& text);

/// The text of rank 0 on all ranks.
std::string broadcast_text(Communicator& group, const std::string& text);

/// Element-wise over all ranks, as `reduce`. The argument is left as it was.
at::Tensor reduce(Communicator& group, const at::Tensor& tensor, Reduce how);

/// Brings the tensor to the longest size along `dim` that a rank has, as `pad_across_processes`:
/// filled with `pad_index` behind, or in front if `pad_first`.
at::Tensor pad_across_processes(Communicator& group, const at::Tensor& tensor, int64_t dim = 0,
                                double pad_index = 0, bool pad_first = false);

/// True on all ranks when it is on one, as `check_trigger`.
bool any_rank(Communicator& group, bool here, const char* what);

/// Sums element by element; a number that only one rank has, zero elsewhere, comes out exact.
void sum_over_ranks(Communicator& group, std::span<double> numbers, const char* what);

}  // namespace accel
