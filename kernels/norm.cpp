#include "kernels/norm.h"

#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/choice.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/parallel.h"

namespace accel {
namespace {

constexpr int64_t kPart = 1 << 18;  // elements per partial sum

struct NormPart {
  const float* data;
  int64_t count;
};

/// The boundaries do not depend on the number of threads.
void cut(const std::vector<at::Tensor>& tensors, std::vector<NormPart>& parts) {
  parts.clear();
  for (const at::Tensor& tensor : tensors) {
    const float* data = tensor.const_data_ptr<float>();
    for (int64_t i = 0; i < tensor.numel(); i += kPart) {
      parts.push_back({data + i, std::min(kPart, tensor.numel() - i)});
    }
  }
}

bool takes_norm(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

}  // namespace

at::Tensor norm_of_all(const std::vector<at::Tensor>& tensors) {
  if (kernels() != Kernels::kFused || !std::all_of(tensors.begin(), tensors.end(), takes_norm)) {
    return at::linalg_vector_norm(at::stack(at::_foreach_norm(tensors, 2.0)), 2.0);
  }
  thread_local std::vector<NormPart> memory_of_parts;  // no allocation per step
  thread_local std::vector<double> memory_of_sums;
  std::vector<NormPart>& parts = memory_of_parts;  // worker threads have separate instances
  std::vector<double>& sums = memory_of_sums;
  cut(tensors, parts);
  sums.assign(parts.size(), 0);
  for_each_part(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      sum_of_squares_cpu(parts[i].data, parts[i].count, &sums[i]);
    }
  });
  const double norm = std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0));
  return at::scalar_tensor(norm, at::TensorOptions(at::kFloat));
}

}  // namespace accel
