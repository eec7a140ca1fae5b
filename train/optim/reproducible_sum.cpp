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

/// Reduces tensors over the axes in one collective.
void reduce_all(const ShardExchange& exchange, Reduce how, const SumAxes& over,
                const std::vector<at::Tensor*>& tensors) {
  Parameter divided;
  for (const Axis axis : over) divided.placements.push_back({axis, 0});
  std::vector<at::Tensor> flat;
  for (const at::Tensor* tensor : tensors) flat.push_back(tensor->reshape({-1}));
  const at::Tensor all = at::cat(flat);
  exchange.all_reduce(all, how, divided);
  int64_t first = 0;
  for (at::Tensor* tensor : tensors) {
    const int64_t count = tensor->numel();
    *tensor = all.narrow(0, first, count).view(tensor->sizes());
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

at::Tensor row_sums_of_squares(const at::Tensor& matrix, const at::Tensor& largest, int64_t count) {
  at::Tensor sums = at::zeros_like(largest);
  for_each_block(matrix.size(0), matrix.size(1), [&](int64_t first, int64_t rows) {
    const at::Tensor squares = squares_of(matrix.narrow(0, first, rows));
    const at::Tensor most = largest.narrow(0, first, rows).unsqueeze(1);
    sums.narrow(0, first, rows).copy_(reproducible_sum(squares, 1, most, count).squeeze(1));
  });
  return sums;
}

at::Tensor largest_row_squares(const at::Tensor& matrix) {
  return largest_column_squares(matrix.t().unsqueeze(0)).view({-1});
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

size_t SharedSums::add(const SumAxes& over, const at::Tensor& largest, Sum sum) {
  left_[over].push_back({results_.size(), largest, std::move(sum)});
  results_.emplace_back();
  return results_.size() - 1;
}

size_t SharedSums::add_vector(const SumAxes& over, const at::Tensor& addends, int64_t count) {
  const at::Tensor largest =
      addends.numel() == 0 ? at::zeros({}, addends.options()) : addends.amax();
  return add(over, largest, [addends, count](const at::Tensor& most) {
    return reproducible_sum(addends, 0, most, count).squeeze(0);
  });
}

size_t SharedSums::add_known(const at::Tensor& sum) {
  results_.push_back(sum);
  return results_.size() - 1;
}

void SharedSums::run(const ShardExchange* exchange) {
  for (auto& [over, list] : left_) {
    std::vector<at::Tensor*> largest, sums;
    for (Addends& item : list) largest.push_back(&item.largest);
    if (!over.empty()) reduce_all(*exchange, Reduce::kMax, over, largest);
    for (Addends& item : list) {
      results_[item.index] = item.sum(item.largest);
      sums.push_back(&results_[item.index]);
    }
    if (!over.empty()) reduce_all(*exchange, Reduce::kSum, over, sums);
  }
  left_.clear();
}

}  // namespace accel
