#include "runner/formats/model_sizes.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace accel {
namespace {

bool is_number(std::string_view word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// "transformer.h.0" of "transformer.h.0.ln_1.weight", "wte" of "wte.weight".
std::string layer_of_weight(const std::string& name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    if (is_number(std::string_view(name).substr(begin, end - begin))) return name.substr(0, end);
    begin = end + 1;
  }
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(0, dot);
}

}  // namespace

ModelSizes model_sizes(const std::vector<NamedArray>& weights) {
  std::map<std::string, int64_t> layers;
  ModelSizes sizes;
  for (const NamedArray& weight : weights) {
    sizes.total += weight.array.count();
    layers[layer_of_weight(weight.name)] += weight.array.count();
  }
  for (const auto& [name, count] : layers) {
    if (count <= sizes.largest) continue;
    sizes.largest = count;
    sizes.largest_layer = name;
  }
  return sizes;
}

}  // namespace accel
