#include "models/layers/packed_projection.h"

#include <ATen/ops/cat.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace accel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Whether the parts [..., width] are those of one tensor [..., parts * width] in their order.
bool are_side_by_side(const variable_list& parts) {
  const at::Tensor& first = parts.front();
  const int64_t width = first.size(-1);
  if (first.stride(-1) != 1) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const at::Tensor& part = parts[i];
    const int64_t offset = first.storage_offset() + static_cast<int64_t>(i) * width;
    if (!part.is_alias_of(first) || part.strides() != first.strides() ||
        part.storage_offset() != offset) {
      return false;
    }
  }
  // Rows that are not as far apart would overlap.
  const int64_t all = static_cast<int64_t>(parts.size()) * width;
  return std::ranges::all_of(first.strides().slice(0, first.dim() - 1),
                             [&](int64_t stride) { return stride >= all; });
}

class SplitProjection : public torch::autograd::Function<SplitProjection> {
 public:
  static variable_list forward(AutogradContext* /*context*/, const at::Tensor& x, int64_t parts) {
    return x.chunk(parts, -1);
  }

  static variable_list backward(AutogradContext* /*context*/, variable_list parts) {
    const at::Tensor& first = parts.front();
    if (!are_side_by_side(parts)) return {at::cat(parts, -1), at::Tensor()};
    std::vector<int64_t> sizes = first.sizes().vec();
    sizes.back() *= static_cast<int64_t>(parts.size());
    return {first.as_strided(sizes, first.strides()), at::Tensor()};
  }
};

}  // namespace

std::vector<at::Tensor> split_projection(const at::Tensor& x, int64_t parts) {
  return SplitProjection::apply(x, parts);
}

}  // namespace accel
