#include "checkpoint/tensors.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <c10/util/FunctionRef.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr std::array<std::pair<at::ScalarType, DType>, 13> kTypes = {{
    {at::ScalarType::Bool, DType::kBool},
    {at::ScalarType::Byte, DType::kU8},
    {at::ScalarType::Char, DType::kI8},
    {at::ScalarType::Short, DType::kI16},
    {at::ScalarType::UInt16, DType::kU16},
    {at::ScalarType::Half, DType::kF16},
    {at::ScalarType::BFloat16, DType::kBF16},
    {at::ScalarType::Int, DType::kI32},
    {at::ScalarType::UInt32, DType::kU32},
    {at::ScalarType::Float, DType::kF32},
    {at::ScalarType::Long, DType::kI64},
    {at::ScalarType::UInt64, DType::kU64},
    {at::ScalarType::Double, DType::kF64},
}};

Array aligned(const Array& array) {
  if (reinterpret_cast<uintptr_t>(array.data()) % size_of(array.type()) == 0) return array;
  Array copy(array.type(), array.shape());
  std::memcpy(copy.mutable_data(), array.data(), array.bytes());
  return copy;
}

/// The weights of a checkpoint by name.
class SavedWeights {
 public:
  explicit SavedWeights(const std::vector<Parameter>& weights) {
    for (const Parameter& item : weights) left_[item.name] = item.local;
  }

  /// Calls use(item, weights in the checkpoint) without gradients. Throws CheckpointError when
  /// names or shapes differ.
  void visit(const std::vector<Parameter>& items,
             c10::function_ref<void(const Parameter&, const at::Tensor&)> use) {
    const c10::NoGradGuard no_grad;
    for (const Parameter& item : items) {
      const auto found = left_.find(item.name);
      if (found == left_.end()) {
        throw CheckpointError(text("the checkpoint's model has no '{}'", item.name));
      }
      if (found->second.sizes() != item.local.sizes()) {
        throw CheckpointError(text("'{}' is {} in the model but {} in the checkpoint", item.name,
                                   to_string(item.local.sizes().vec()),
                                   to_string(found->second.sizes().vec())));
      }
      use(item, found->second);
      left_.erase(found);
    }
  }

  /// Throws CheckpointError if weights are left.
  void check_visited() const {
    if (left_.empty()) return;
    throw CheckpointError(
        text("the checkpoint's model has '{}', which this model lacks", left_.begin()->first));
  }

 private:
  std::map<std::string, at::Tensor> left_;
};

/// Whether no other tensor has elements in the memory of `tensor`.
bool owns_plain_memory(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_view() && tensor.storage().use_count() == 1;
}

}  // namespace

Array array_of(const at::Tensor& tensor, const std::string& name) {
  if (!tensor.defined()) throw std::invalid_argument(text("the tensor '{}' is undefined", name));
  const auto type = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& pair) {
    return pair.first == tensor.scalar_type();
  });
  if (type == kTypes.end()) {
    throw std::invalid_argument(text("the tensor '{}' is {}, which checkpoints do not support",
                                     name, c10::toString(tensor.scalar_type())));
  }
  const auto plain = std::make_shared<at::Tensor>(tensor.detach().cpu().contiguous());
  return {type->second, plain->sizes().vec(), static_cast<const std::byte*>(plain->data_ptr()),
          plain};
}

at::Tensor tensor_of(const Array& array) {
  const auto held = std::make_shared<Array>(aligned(array));
  const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const auto& pair) { return pair.second == held->type(); });
  return at::from_blob(
      const_cast<std::byte*>(held->data()), held->shape(), [held](void*) {},
      at::TensorOptions().dtype(type->first));
}

at::Tensor host_copy(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const at::Tensor plain = tensor.detach();
  return plain.is_cpu() ? plain.clone() : plain.cpu();
}

void copy_weights(const std::vector<Parameter>& parameters, const std::vector<Parameter>& buffers,
                  const std::vector<Parameter>& from, StateSwapper* swapper) {
  std::optional<size_t> slab;  // swapped in
  std::optional<SwapScope> scope;
  const auto copy = [&](const Parameter& item, const at::Tensor& saved) {
    const auto next = swapper ? swapper->find(item.local) : std::nullopt;
    if (next != slab) {
      scope.reset();
      scope.emplace(swapper, next, SwapAccess::kChange);
      slab = next;
    }
    item.local.copy_(saved);
  };
  SavedWeights saved(from);
  saved.visit(parameters, copy);
  saved.visit(buffers, copy);
  saved.check_visited();
}

void adopt_weights(const std::vector<Parameter>& parameters, const std::vector<Parameter>& buffers,
                   const std::vector<Parameter>& from) {
  SavedWeights weights(from);
  weights.visit(parameters, [](const Parameter& item, const at::Tensor& saved) {
    if (owns_plain_memory(item.local) && item.local.options().type_equal(saved.options())) {
      item.local.set_data(saved);
    } else {
      item.local.copy_(saved);
    }
  });
  weights.visit(buffers,
                [](const Parameter& item, const at::Tensor& saved) { item.local.copy_(saved); });
  weights.check_visited();
}

const std::vector<Value>& items_of(const Value* value, const char* what) {
  if (value) {
    if (const auto* list = value->as<Value::List>()) return list->items;
    if (const auto* tuple = value->as<Value::Tuple>()) return tuple->items;
  }
  throw FormatError(text("'{}' is not a list", what));
}

const Value::Dict& dict_in(const Value* value, const char* what) {
  const auto* dict = value ? value->as<Value::Dict>() : nullptr;
  if (!dict) throw FormatError(text("'{}' is not a dict", what));
  return *dict;
}

std::optional<double> number_in(const Value& value) {
  if (const auto* flag = value.as<bool>()) return *flag ? 1.0 : 0.0;
  if (const auto* whole = value.as<int64_t>()) return static_cast<double>(*whole);
  if (const auto* number = value.as<double>()) return *number;
  const auto* array = value.as<Array>();
  if (array && array->count() == 1) return tensor_of(*array).item().toDouble();
  return std::nullopt;
}

std::vector<double> numbers_in(const Value* value, const char* what) {
  std::vector<double> out;
  for (const Value& item : items_of(value, what)) {
    const std::optional<double> number = number_in(item);
    if (!number) throw FormatError(text("'{}' is not a list of numbers", what));
    out.push_back(*number);
  }
  return out;
}

}  // namespace accel
