#include "train/optim/reproducible_sum.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace accel {
namespace {

/// Elements whose float64 squares fit into the processor's cache.
constexpr int64_t kBlock = 1 << 16;

/// The power of two below or equal to each number, by its bits.
at::Tensor power_of_two(const at::Tensor& numbers) {
  constexpr int64_t kExponent = 0x7FF0000000000000;
  return numbers.contiguous().view(at::kLong).bitwise_and(kExponent).view(at::kDouble);
}

int ceil_log2(int64_t count) {
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(count, 1) - 1)));
}

at::Tensor squares_of(const at::Tensor& tensor) {
  return tensor.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true).square_();
}

/// Calls `visit(first, count)` for blocks of rows, of `row_size` elements each.
template <class Visit>
void for_each_block(int64_t rows, int64_t row_size, const Visit& visit) {
  const int64_t step = std::max<int64_t>(1, kBlock / std::max<int64_t>(row_size, 1));
  for (int64_t first = 0; first < rows; first += step) visit(first, std::min(step, rows - first));
}

/// The tensors as one vector, and back.
at::Tensor joined(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape({-1}));
  return at::cat(flat);
}

void split(const at::Tensor& all, std::vector<at::Tensor>& tensors) {
  int64_t first = 0;
  for (at::Tensor& tensor : tensors) {
    const int64_t count = tensor.numel();
    tensor = all.narrow(0, first, count).view(tensor.sizes());
    first += count;
  }
}

}  // namespace

at::Tensor reproducible_sum(const at::Tensor& addends, int64_t dim, const at::Tensor& largest,
                            int64_t count) {
  // All sums are below 2^k, for k the exponent of 2 * power_of_two(largest) * count. Numbers in
  // [2^(k-1), 2^k) are multiples of the unit 2^(k-53), to which adding `shift` rounds an addend.
  const double scale = 1.5 * std::exp2(std::max(ceil_log2(count), 2));
  const at::Tensor shift = power_of_two(largest).mul(scale);
  return addends.add(shift).sub_(shift).sum(dim, /*keepdim=*/true);
}

at::Tensor row_sums_of_squares(const at::Tensor& matrix) {
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  at::Tensor sums = at::zeros({rows}, matrix.options().dtype(at::kDouble).requires_grad(false));
  if (columns == 0) return sums;
  for_each_block(rows, columns, [&](int64_t first, int64_t count) {
    const at::Tensor squares = squares_of(matrix.narrow(0, first, count));
    const at::Tensor largest = squares.amax(1, /*keepdim=*/true);
    sums.narrow(0, first, count).copy_(reproducible_sum(squares, 1, largest, columns).squeeze(1));
  });
  return sums;
}

at::Tensor largest_column_squares(const at::Tensor& matrices) {
  if (matrices.numel() == 0) {
    return at::zeros({matrices.size(0), 1, matrices.size(2)},
                     matrices.options().dtype(at::kDouble).requires_grad(false));
  }
  const auto [least, most] = at::aminmax(matrices, 1, /*keepdim=*/true);
  return squares_of(at::maximum(least.neg(), most));
}

at::Tensor column_sums_of_squares(const at::Tensor& matrices, const at::Tensor& largest,
                                  int64_t count) {
  at::Tensor sums = at::zeros_like(largest);
  for_each_block(matrices.size(1), matrices.size(0) * matrices.size(2),
                 [&](int64_t first, int64_t rows) {
                   const at::Tensor squares = squares_of(matrices.narrow(1, first, rows));
                   sums.add_(reproducible_sum(squares, 1, largest, count));
                 });
  return sums;
}

size_t SharedSums::add(const at::Tensor& largest, Sum sum) {
  largest_.push_back(largest);
  sums_.push_back(std::move(sum));
  return sums_.size() - 1;
}

size_t SharedSums::add_vector(const at::Tensor& addends, int64_t count) {
  const at::Tensor largest =
      addends.numel() == 0 ? at::zeros({}, addends.options()) : addends.amax();
  return add(largest, [addends, count](const at::Tensor& most) {
    return reproducible_sum(addends, 0, most, count).squeeze(0);
  });
}

void SharedSums::run(const ShardExchange* exchange, const Parameter& divided_as) {
  if (sums_.empty()) return;
  if (exchange) {
    const at::Tensor all = joined(largest_);
    exchange->all_reduce(all, Reduce::kMax, divided_as);
    split(all, largest_);
  }
  for (size_t i = 0; i < sums_.size(); ++i) results_.push_back(sums_[i](largest_[i]));
  sums_.clear();
  if (!exchange) return;
  const at::Tensor all = joined(results_);
  exchange->all_reduce(all, Reduce::kSum, divided_as);
  split(all, results_);
}

}  // namespace accel
