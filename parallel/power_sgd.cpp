#include "parallel/power_sgd.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace accel {
namespace {

/// Gram-Schmidt over the columns, in place. A column of zeros stays one.
void orthogonalize(const at::Tensor& matrix) {
  for (int64_t i = 0; i < matrix.size(1); ++i) {
    const at::Tensor column = matrix.narrow(1, i, 1);
    const at::Tensor norm = column.norm();
    column.div_(at::where(norm.eq(0), at::ones_like(norm), norm));
    const int64_t rest = matrix.size(1) - i - 1;
    if (rest == 0) return;
    const at::Tensor others = matrix.narrow(1, i + 1, rest);
    others.sub_(at::matmul(column, at::matmul(column.t(), others)));
  }
}

constexpr uint32_t kMaxSeed = 1'000'000'000;  // exclusive
constexpr uint32_t kSeedMask = (1U << 30) - 1;

}  // namespace

std::vector<uint64_t> power_sgd_seeds(uint64_t seed, size_t buckets) {
  std::mt19937 generator(static_cast<uint32_t>(seed));
  std::vector<uint64_t> seeds;
  while (seeds.size() < buckets) {
    // NumPy's randint: masked bits, again while they are too large.
    const auto bits = static_cast<uint32_t>(generator()) & kSeedMask;
    if (bits < kMaxSeed) seeds.push_back(bits);
  }
  return seeds;
}

PowerSgd::PowerSgd(const Bucket& bucket, const PowerSgdOptions& options, int64_t world)
    : bucket_(bucket), options_(options), world_(static_cast<double>(world)) {
  for (size_t i = 0; i < bucket.size(); ++i) {
    const at::Tensor& parameter = bucket.parameter(i).local;
    const int64_t size = parameter.numel();
    const int64_t rows = parameter.dim() > 0 ? parameter.size(0) : 1;
    const int64_t columns = rows > 0 ? size / rows : 0;
    const int64_t rank = std::min({rows, columns, options.rank});
    const double compressed = static_cast<double>((rows + columns) * rank);
    if (compressed * options.min_compression_rate < static_cast<double>(size)) {
      matrices_.push_back({i, rows, columns, rank});
    } else {
      untouched_.push_back(i);
    }
  }
}

at::Tensor PowerSgd::gradient(const Matrix& matrix, const at::Tensor& flat) const {
  return bucket_.slice(matrix.index, flat).view({matrix.rows, matrix.columns});
}

/// The next rows x columns elements of `all`.
at::Tensor PowerSgd::factor(const at::Tensor& all, int64_t& at, int64_t rows,
                            int64_t columns) const {
  const at::Tensor found = all.narrow(0, at, rows * columns).view({rows, columns});
  at += rows * columns;
  return found;
}

/// The order in which PyTorch draws: matrices of one shape follow the first of them.
std::vector<size_t> PowerSgd::draw_order() const {
  std::vector<std::pair<int64_t, int64_t>> shapes;
  std::vector<std::pair<size_t, size_t>> order;  // of the shape, of the matrix
  for (size_t m = 0; m < matrices_.size(); ++m) {
    const std::pair shape(matrices_[m].rows, matrices_[m].columns);
    const auto found = std::find(shapes.begin(), shapes.end(), shape);
    order.emplace_back(static_cast<size_t>(found - shapes.begin()), m);
    if (found == shapes.end()) shapes.push_back(shape);
  }
  std::sort(order.begin(), order.end());
  std::vector<size_t> out;
  for (const auto& [shape, m] : order) out.push_back(m);
  return out;
}

/// The initial random Q: the same on all ranks, and independent of the model's random stream.
void PowerSgd::guess() {
  at::Generator generator = at::detail::createCPUGenerator(options_.seed);
  const auto type = bucket_.flat().options().device(at::kCPU);
  std::vector<at::Tensor> parts(matrices_.size());
  for (const size_t m : draw_order()) {
    const int64_t size = matrices_[m].columns * matrices_[m].rank;
    parts[m] = at::randn({size}, generator, type).to(bucket_.flat().device());
  }
  parts.push_back(at::zeros({0}, bucket_.flat().options()));
  right_ = at::cat(parts);
  error_ = at::zeros_like(bucket_.flat());
}

at::Tensor PowerSgd::first() {
  if (!error_.defined()) guess();
  input_ = bucket_.flat().add(error_);
  std::vector<at::Tensor> parts;
  int64_t at = 0;
  for (const Matrix& matrix : matrices_) {
    const at::Tensor q = factor(right_, at, matrix.columns, matrix.rank);
    orthogonalize(q);
    parts.push_back(at::matmul(gradient(matrix, input_), q).flatten());
  }
  for (const size_t i : untouched_) parts.push_back(bucket_.slice(i, input_));
  parts.push_back(bucket_.flags(input_));
  return at::cat(parts);
}

at::Tensor PowerSgd::second(const at::Tensor& first) {
  left_ = first;
  std::vector<at::Tensor> parts = {at::zeros({0}, first.options())};
  int64_t at = 0;
  for (const Matrix& matrix : matrices_) {
    const at::Tensor p = factor(left_, at, matrix.rows, matrix.rank);
    orthogonalize(p);
    parts.push_back(at::matmul(gradient(matrix, input_).t(), p).flatten());
  }
  return at::cat(parts);
}

void PowerSgd::finish(const at::Tensor& second) {
  const at::Tensor& sum = bucket_.flat();
  error_.zero_();
  int64_t left = 0, right = 0;
  for (const Matrix& matrix : matrices_) {
    const at::Tensor p = factor(left_, left, matrix.rows, matrix.rank);
    const at::Tensor q = factor(second, right, matrix.columns, matrix.rank);
    const at::Tensor product = gradient(matrix, sum);
    product.copy_(at::matmul(p, q.t()));
    // Each rank's error is relative to the mean over ranks.
    gradient(matrix, error_).copy_(gradient(matrix, input_).sub(product.div(world_)));
  }
  for (const size_t i : untouched_) {
    const at::Tensor slice = bucket_.slice(i, sum);
    slice.copy_(left_.narrow(0, left, slice.numel()));
    left += slice.numel();
  }
  bucket_.flags(sum).copy_(left_.narrow(0, left, left_.numel() - left));
  right_ = second;
  input_.reset();
  left_.reset();
}

std::vector<Parameter> PowerSgd::state() const {
  if (!error_.defined()) return {};
  return {{"error", error_}, {"guess", right_}};
}

void PowerSgd::load(const at::Tensor& error, const at::Tensor& guess) {
  int64_t wanted = 0;
  for (const Matrix& matrix : matrices_) wanted += matrix.columns * matrix.rank;
  if (error.numel() != bucket_.flat().numel() || guess.numel() != wanted) {
    throw CheckpointError("the checkpoint's 'power_sgd' state does not fit the gradients",
                          "restore the old values of 'accelerator.ddp'");
  }
  error_ = error.to(bucket_.flat().options()).clone();
  right_ = guess.to(bucket_.flat().options()).clone();
}

}  // namespace accel
