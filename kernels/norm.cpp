#include "kernels/norm.h"

#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "kernels/choice.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/parallel.h"

namespace accel {
namespace {

constexpr int64_t kPart = 1 << 18;  // elements per partial sum

/// Elements of tensor number `tensor`, and the sum of their squares.
struct NormPart {
  const float* data;
  int64_t count;
  size_t tensor;
  double sum;
};

bool takes_norm(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

bool takes_norms(const std::vector<at::Tensor>& tensors) {
  return kernels() == Kernels::kFused && std::all_of(tensors.begin(), tensors.end(), takes_norm);
}

/// The sums of all parts, in order. Their boundaries do not depend on the number of threads. The
/// list is valid until the next call of this thread.
const std::vector<NormPart>& sums_of_parts(const std::vector<at::Tensor>& tensors) {
  thread_local std::vector<NormPart> memory;  // no allocation per step
  std::vector<NormPart>& parts = memory;      // worker threads have separate instances
  parts.clear();
  for (size_t t = 0; t < tensors.size(); ++t) {
    const float* data = tensors[t].const_data_ptr<float>();
    for (int64_t i = 0; i < tensors[t].numel(); i += kPart) {
      parts.push_back({data + i, std::min(kPart, tensors[t].numel() - i), t, 0});
    }
  }
  for_each_part(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      sum_of_squares_cpu(parts[i].data, parts[i].count, &parts[i].sum);
    }
  });
  return parts;
}

}  // namespace

at::Tensor norm_of_all(const std::vector<at::Tensor>& tensors) {
  if (!takes_norms(tensors)) {
    return at::linalg_vector_norm(at::stack(at::_foreach_norm(tensors, 2.0)), 2.0);
  }
  double sum = 0;
  for (const NormPart& part : sums_of_parts(tensors)) sum += part.sum;
  return at::scalar_tensor(std::sqrt(sum), at::TensorOptions(at::kFloat));
}

at::Tensor norm_terms(const at::Tensor& tensor) {
  if (kernels() != Kernels::kFused) return at::_foreach_norm({tensor}, 2.0)[0].view({1});
  at::Tensor terms = at::zeros({norm_term_count(tensor.numel())}, at::kDouble);
  if (tensor.numel() == 0) return terms;
  if (!takes_norm(tensor)) {
    terms[0] = at::linalg_vector_norm(tensor, 2.0, {}, false, at::kDouble).square();
    return terms;
  }
  auto* next = terms.mutable_data_ptr<double>();
  for (const NormPart& part : sums_of_parts({tensor})) *next++ = part.sum;
  return terms;
}

int64_t norm_term_count(int64_t elements) {
  return kernels() == Kernels::kFused ? (elements + kPart - 1) / kPart : 1;
}

at::ScalarType norm_term_type(at::ScalarType type) {
  return kernels() == Kernels::kFused ? at::kDouble : type;
}

at::Tensor norm_of_terms(const at::Tensor& terms) {
  if (kernels() != Kernels::kFused) return at::linalg_vector_norm(terms, 2.0);
  double sum = 0;
  for (int64_t i = 0; i < terms.numel(); ++i) sum += terms.const_data_ptr<double>()[i];
  return at::scalar_tensor(std::sqrt(sum), at::TensorOptions(at::kFloat));
}

at::Tensor squared_norms(const std::vector<at::Tensor>& tensors) {
  if (!takes_norms(tensors)) {
    std::vector<at::Tensor> norms;
    for (const at::Tensor& tensor : tensors) {
      norms.push_back(at::linalg_vector_norm(tensor, 2.0, {}, false, at::kDouble));
    }
    return at::stack(norms).square();
  }
  at::Tensor norms = at::zeros({static_cast<int64_t>(tensors.size())}, at::kDouble);
  auto* const sums = norms.mutable_data_ptr<double>();
  for (const NormPart& part : sums_of_parts(tensors)) sums[part.tensor] += part.sum;
  return norms;
}

}  // namespace accel
