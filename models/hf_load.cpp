// The weights of a Hugging Face folder into a model that is there.
#include "models/hf_load.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/log.h"
#include "models/hf_family.h"
#include "models/module_state.h"

namespace accel {
namespace {

/// So much of a weight is looked at before the memory of the file is given back.
constexpr int64_t kPieceBytes = int64_t{8} << 20;

constexpr std::array<std::pair<at::ScalarType, DType>, 8> kWeightTypes = {{
    {at::ScalarType::Float, DType::kF32},
    {at::ScalarType::Half, DType::kF16},
    {at::ScalarType::BFloat16, DType::kBF16},
    {at::ScalarType::Double, DType::kF64},
    {at::ScalarType::Long, DType::kI64},
    {at::ScalarType::Int, DType::kI32},
    {at::ScalarType::Bool, DType::kBool},
    {at::ScalarType::Byte, DType::kU8},
}};

DType type_of(const at::Tensor& tensor) {
  const auto found = std::find_if(kWeightTypes.begin(), kWeightTypes.end(), [&](const auto& pair) {
    return pair.first == tensor.scalar_type();
  });
  return found->second;
}

at::Tensor view_of(const std::byte* data, DType type, const Shape& shape) {
  const auto found = std::find_if(kWeightTypes.begin(), kWeightTypes.end(),
                                  [&](const auto& pair) { return pair.second == type; });
  return at::from_blob(const_cast<std::byte*>(data), shape,
                       at::TensorOptions().dtype(found->first));
}

/// Rows [begin, end) of an array along its first dimension, as a tensor.
at::Tensor rows_of(const Array& array, int64_t begin, int64_t end, Array& aligned) {
  Shape shape = array.shape();
  const size_t row = array.bytes() / static_cast<size_t>(shape[0]);
  shape[0] = end - begin;
  const std::byte* data = array.data() + row * static_cast<size_t>(begin);
  if (reinterpret_cast<uintptr_t>(data) % size_of(array.type()) != 0) {
    aligned = Array(array.type(), shape);
    std::memcpy(aligned.mutable_data(), data, aligned.bytes());
    data = aligned.data();
  }
  return view_of(data, array.type(), shape);
}

void fill(const at::Tensor& weight, const PlacedWeight& from, const HfWeights& weights) {
  const Array& array = from.array;
  if (array.count() == 0) return;
  Array aligned;
  if (array.shape().empty()) {
    Array one(array.type(), {1}, array.data(), array.owner());
    weight.view({1}).copy_(rows_of(one, 0, 1, aligned));
    return;
  }
  const at::Tensor to = from.transposed ? weight.t() : weight;
  const int64_t rows = array.shape()[0];
  const auto row_bytes = static_cast<int64_t>(array.bytes()) / rows;
  const int64_t step = std::max<int64_t>(1, kPieceBytes / row_bytes);
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t end = std::min(rows, begin + step);
    to.narrow(0, begin, end - begin).copy_(rows_of(array, begin, end, aligned));
    weights.forget(
        {array.data() + begin * row_bytes, static_cast<size_t>(row_bytes * (end - begin))});
  }
}

}  // namespace

std::vector<std::string> load_weights(const std::vector<NamedTensor>& into,
                                      const HfWeights& weights, const HfNames& names,
                                      const std::string& model) {
  std::vector<WantedWeight> wanted;
  for (const NamedTensor& item : into) {
    wanted.push_back({item.name, type_of(item.tensor), item.tensor.sizes().vec()});
  }
  WeightPlan plan = plan_weights(wanted, weights, names, model);
  const at::NoGradGuard no_grad;
  for (const PlacedWeight& placed : plan.placed) fill(into[placed.wanted].tensor, placed, weights);
  return std::move(plan.fresh);
}

void load_hf_weights(Model& model, const std::string& folder, const HfNames& names,
                     const std::string& name) {
  std::vector<NamedTensor> own = parameters_of(model);
  for (NamedTensor& buffer : buffers_of(model)) own.push_back(std::move(buffer));
  std::string fresh;
  for (const std::string& weight : load_weights(own, HfWeights(folder), names, name)) {
    fresh += (fresh.empty() ? "'" : ", '") + weight + "'";
  }
  if (!fresh.empty()) warn("not in '" + folder + "' and new: " + fresh);
}

}  // namespace accel
