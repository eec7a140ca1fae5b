#include "kernels/layer_norm.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "kernels/choice.h"
#include "kernels/cpu/layer_norm.h"
#include "kernels/cpu/parallel.h"

namespace accel {
namespace {

/// Ranges of contiguous rows, which are the same for any number of threads.
class RowParts {
 public:
  explicit RowParts(const at::Tensor& x)
      : width_(x.size(-1)), rows_(x.numel() / width_), each_(rows_of_part(rows_, width_)) {}

  int64_t count() const { return (rows_ + each_ - 1) / each_; }
  int64_t width() const { return width_; }

  /// Calls work(part, its first row, its number of rows) in all threads.
  template <typename Work>
  void for_each(const Work& work) const {
    for_each_part(count(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        work(i, i * each_, std::min(each_, rows_ - i * each_));
      }
    });
  }

 private:
  int64_t width_, rows_, each_;
};

/// Null for an undefined tensor.
const float* read(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}

const float* from(const float* numbers, int64_t first) {
  return numbers != nullptr ? numbers + first : nullptr;
}

}  // namespace

void layer_norm(const at::Tensor& x, const at::Tensor& branch, const NormRule& rule,
                const NormResults& to) {
  if (fakes_fused()) return;
  const RowParts parts(x);
  const LayerNormRows all = {read(x), read(branch),  read(rule.weight),           read(rule.bias),
                             0,       parts.width(), static_cast<float>(rule.eps)};
  auto* const sum = branch.defined() ? to.sum.mutable_data_ptr<float>() : nullptr;
  auto* const y = to.y.mutable_data_ptr<float>();
  const at::Tensor means = to.statistics[0], scales = to.statistics[1];
  const RowMoments<float> moments = {means.mutable_data_ptr<float>(),
                                     scales.mutable_data_ptr<float>()};
  parts.for_each([&](int64_t /*part*/, int64_t row, int64_t rows) {
    const int64_t first = row * parts.width();
    LayerNormRows own = all;
    own.x += first;
    own.branch = from(all.branch, first);
    own.rows = rows;
    layer_norm_cpu(own, sum != nullptr ? sum + first : nullptr, y + first,
                   {moments.means + row, moments.scales + row});
  });
}

NormGradients layer_norm_backward(const NormResults& saved, const NormRule& rule,
                                  const NormSlopes& slopes) {
  const RowParts parts(saved.sum);
  const int64_t width = parts.width();
  NormGradients to;
  to.sum = at::empty_like(saved.sum);
  const at::Tensor sums = at::zeros({parts.count(), 2 * width}, saved.sum.options());
  if (!fakes_fused()) {
    const float *const x = read(saved.sum), *const weight = read(rule.weight),
                       *const dy = read(slopes.dy), *const dsum = read(slopes.dsum);
    const at::Tensor means = saved.statistics[0], scales = saved.statistics[1];
    const RowMoments<const float> moments = {read(means), read(scales)};
    auto *const dx = to.sum.mutable_data_ptr<float>(), *const sum = sums.mutable_data_ptr<float>();
    parts.for_each([&](int64_t part, int64_t row, int64_t rows) {
      const int64_t first = row * width;
      float* const own = sum + part * 2 * width;
      layer_norm_backward_cpu({x + first, nullptr, weight, nullptr, rows, width, 0},
                              {moments.means + row, moments.scales + row},
                              {dy + first, from(dsum, first), dx + first, own, own + width});
    });
  }
  to.weight = sums.narrow(1, 0, width).sum(0);
  to.bias = sums.narrow(1, width, width).sum(0);
  return to;
}

}  // namespace accel
