#include "kernels/memory/gradient_memory.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "kernels/choice.h"

namespace accel {
namespace {

/// A storage and an offset in it: fake tensors have no data.
using Place = std::pair<const c10::StorageImpl*, int64_t>;

struct Offers {
  std::mutex mutex;
  std::map<Place, at::Tensor> by_place;  ///< of the parameter
};

Offers& offers() {
  static Offers all;
  return all;
}

Place place_of(const at::Tensor& tensor) {
  return {tensor.storage().unsafeGetStorageImpl(), tensor.storage_offset()};
}

/// What is offered, which ends the offer; undefined: nothing.
at::Tensor take(const at::Tensor& weight) {
  // Plans are of GPUs, too, whose gradients are copied.
  if (fakes_fused() || !weight.has_storage() || !weight.is_contiguous()) return {};
  const std::lock_guard lock(offers().mutex);
  const auto found = offers().by_place.find(place_of(weight));
  if (found == offers().by_place.end()) return {};
  const at::Tensor& memory = found->second;
  if (memory.numel() != weight.numel() || memory.scalar_type() != weight.scalar_type()) return {};
  at::Tensor taken = memory.view(weight.sizes());
  offers().by_place.erase(found);
  return taken;
}

using torch::autograd::Node;

/// Null: the input needs no gradient.
std::shared_ptr<Node> next_node(const Node& node, size_t input) {
  return input < node.num_outputs() ? node.next_edge(input).function : nullptr;
}

/// The weight [out, in] of the linear layer, x * weight^T, whose gradients the current node of a
/// backward pass computes; undefined: another node.
at::Tensor weight_of_current_node() {
  const std::shared_ptr<Node> product = torch::autograd::get_current_node();
  if (!product) return {};
  const std::string name = product->name();
  if (name != "AddmmBackward0" && name != "MmBackward0") return {};
  const std::shared_ptr<Node> transposed = next_node(*product, name == "MmBackward0" ? 1 : 2);
  if (!transposed || transposed->name() != "TBackward0") return {};
  const auto* leaf =
      dynamic_cast<const torch::autograd::AccumulateGrad*>(next_node(*transposed, 0).get());
  return leaf ? leaf->variable : at::Tensor();
}

bool has_offers() {
  const std::lock_guard lock(offers().mutex);
  return !offers().by_place.empty();
}

}  // namespace

void GradientMemory::offer(const at::Tensor& parameter, const at::Tensor& memory) {
  const std::lock_guard lock(offers().mutex);
  offers().by_place[place_of(parameter)] = memory;
  offered_.push_back(place_of(parameter));
}

void GradientMemory::withdraw() {
  const std::lock_guard lock(offers().mutex);
  for (const Place& place : offered_) offers().by_place.erase(place);
  offered_.clear();
}

at::Tensor gradient_memory(const at::Tensor& weight) {
  const c10::NoGradGuard no_grad;
  at::Tensor memory = take(weight);
  return memory.defined() ? memory : at::empty(weight.sizes(), weight.options());
}

at::Tensor gradient_memory_of_product(const at::Tensor& a, const at::Tensor& b) {
  if (c10::GradMode::is_enabled() || !has_offers()) return {};
  const at::Tensor weight = weight_of_current_node();
  if (!weight.defined() || weight.scalar_type() != a.scalar_type()) return {};
  if (weight.dim() != 2 || weight.size(0) != a.size(0) || weight.size(1) != b.size(1)) return {};
  // The gradient of x, which may have the same sizes, is a product of the weight.
  if (weight.is_alias_of(a) || weight.is_alias_of(b)) return {};
  return take(weight);
}

}  // namespace accel
