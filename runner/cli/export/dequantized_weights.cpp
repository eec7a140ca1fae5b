#include "runner/cli/export/dequantized_weights.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "checkpoint/tensors.h"
#include "kernels/quantized_weight.h"
#include "models/quantized/cast_weight.h"

namespace accel {
namespace {

using Parts = std::map<std::string, Array>;

/// The scales and shapes of codes, by name.
Parts parts_of(const std::vector<NamedArray>& weights) {
  Parts parts;
  for (const NamedArray& item : weights) {
    if (item.name.find(".weight.") != item.name.npos) parts[item.name] = item.array;
  }
  return parts;
}

at::Tensor part_in(const Parts& parts, const std::string& name) {
  const auto found = parts.find(name);
  return found == parts.end() ? at::Tensor() : tensor_of(found->second);
}

Shape shape_of(const NamedArray& codes, const Parts& parts) {
  const at::Tensor shape = part_in(parts, codes.name + ".shape");
  if (!shape.defined()) return codes.array.shape();
  return {shape[0].item<int64_t>(), shape[1].item<int64_t>()};
}

Array dequantized(const NamedArray& codes, const Parts& parts, WeightCode code) {
  const Shape shape = shape_of(codes, parts);
  const QuantizedWeight weight = {code,
                                  shape[0],
                                  shape[1],
                                  tensor_of(codes.array),
                                  part_in(parts, codes.name + ".absmax"),
                                  part_in(parts, codes.name + ".nested_absmax"),
                                  part_in(parts, codes.name + ".nested_offset")};
  return array_of(dequantize_weight(weight, at::kFloat), codes.name);
}

Array uncast(const NamedArray& stored) {
  return array_of(uncast_weight(tensor_of(stored.array), at::kFloat), stored.name);
}

}  // namespace

std::vector<TensorSource> dequantized_weights(const std::vector<NamedArray>& weights,
                                              const QuantizationOptions& options) {
  std::vector<TensorSource> out;
  if (const auto storage = options.storage()) {
    const DType type = storage == at::kBFloat16 ? DType::kBF16 : DType::kU8;
    for (const NamedArray& item : weights) {
      TensorSource source = source_of(item);
      if (source.type == type) {
        source.type = DType::kF32;
        source.read = [item] { return uncast(item); };
      }
      out.push_back(std::move(source));
    }
    return out;
  }
  const auto parts = std::make_shared<const Parts>(parts_of(weights));
  for (const NamedArray& item : weights) {
    if (parts->contains(item.name)) continue;
    TensorSource source = source_of(item);
    if (parts->contains(item.name + ".absmax")) {
      source.type = DType::kF32;
      source.shape = shape_of(item, *parts);
      source.read = [item, parts, code = options.code()] {
        return dequantized(item, *parts, code);
      };
    }
    out.push_back(std::move(source));
  }
  return out;
}

}  // namespace accel
