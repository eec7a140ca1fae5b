#include "runner/cli/export/dequantized_weights.h"

#include <map>
#include <string>

#include "checkpoint/tensors.h"
#include "kernels/quantized_weight.h"

namespace accel {

std::vector<NamedArray> dequantized_weights(const std::vector<NamedArray>& weights,
                                            const QuantizationOptions& options) {
  std::map<std::string, at::Tensor> parts;
  for (const NamedArray& item : weights) {
    if (item.name.find(".weight.") != item.name.npos) parts[item.name] = tensor_of(item.array);
  }
  const auto part = [&](const std::string& name) {
    const auto found = parts.find(name);
    return found == parts.end() ? at::Tensor() : found->second;
  };
  std::vector<NamedArray> out;
  for (const NamedArray& item : weights) {
    if (parts.contains(item.name)) continue;
    const at::Tensor abs_max = part(item.name + ".absmax");
    if (!abs_max.defined()) {
      out.push_back(item);
      continue;
    }
    const at::Tensor codes = tensor_of(item.array), shape = part(item.name + ".shape");
    const auto size = [&](int64_t dim) {
      return shape.defined() ? shape[dim].item<int64_t>() : codes.size(dim);
    };
    const QuantizedWeight weight = {options.code(),
                                    size(0),
                                    size(1),
                                    codes,
                                    abs_max,
                                    part(item.name + ".nested_absmax"),
                                    part(item.name + ".nested_offset")};
    out.push_back({item.name, array_of(dequantize_weight(weight, at::kFloat), item.name)});
  }
  return out;
}

}  // namespace accel
