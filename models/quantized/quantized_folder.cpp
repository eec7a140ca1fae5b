#include "models/quantized/quantized_folder.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr std::string_view kQuantState = ".quant_state.bitsandbytes__";
constexpr std::string_view kAbsMax = ".absmax";

[[noreturn]] void throw_unsupported(const HfWeights& weights, const std::string& name,
                                    const std::string& what) {
  throw DataError(text("the quantized weight '{}' in '{}' {}", name, weights.folder(), what),
                  "quantize it again with bitsandbytes' defaults, or name the unquantized folder");
}

template <class T>
NamedArray small_array(const std::string& name, DType type, const std::vector<T>& values) {
  return {name, Array::of<T>(type, {static_cast<int64_t>(values.size())}, values)};
}

/// The shape and the mean of the scales in a weight's state.
void add_state(const HfWeights& weights, const std::string& name, const NamedArray& state,
               std::vector<NamedArray>& out) {
  const std::string_view bytes(reinterpret_cast<const char*>(state.array.data()),
                               state.array.bytes());
  const json values = json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (!values.is_object() || !values.contains("shape") || !values.at("shape").is_array()) {
    throw_unsupported(weights, name, "has a state that is not JSON with a 'shape'");
  }
  const auto wants = [&](const char* key, int64_t wanted) {
    const auto found = values.find(key);
    if (found == values.end() || *found == wanted) return;
    throw_unsupported(weights, name,
                      text("has '{}' {}, and only {} is read", key, found->dump(), wanted));
  };
  wants("blocksize", kWeightBlock);
  wants("nested_blocksize", kScaleBlock);
  out.push_back(
      small_array(name + ".shape", DType::kI64, values.at("shape").get<std::vector<int64_t>>()));
  if (const auto offset = values.find("nested_offset"); offset != values.end()) {
    out.push_back(small_array<float>(name + ".nested_offset", DType::kF32, {offset->get<float>()}));
  }
}

/// The tensors of 8-bit weights: I8 "x.weight" and its scales "x.SCB".
std::set<std::string> read_int8(HfWeights& weights) {
  constexpr std::string_view kScales = ".SCB", kFormat = ".weight_format";
  std::set<std::string> names;
  std::vector<NamedArray> out;
  for (NamedArray& item : std::vector<NamedArray>(weights.tensors())) {
    if (item.name.ends_with(kFormat)) continue;
    if (item.name.ends_with(kScales)) {
      const std::string name = item.name.substr(0, item.name.size() - kScales.size()) + ".weight";
      names.insert(name);
      item.name = name + std::string(kAbsMax);
    }
    out.push_back(std::move(item));
  }
  weights.replace(std::move(out));
  return names;
}

}  // namespace

std::set<std::string> read_quantized_names(HfWeights& weights, WeightCode code) {
  if (code == WeightCode::kInt8) return read_int8(weights);
  const std::string type = code == WeightCode::kNf4 ? "nf4" : "fp4";
  std::set<std::string> names;
  std::vector<NamedArray> out;
  for (const NamedArray& item : weights.tensors()) {
    const size_t at = item.name.find(kQuantState);
    if (at == item.name.npos) continue;
    const std::string name = item.name.substr(0, at);
    if (item.name.substr(at + kQuantState.size()) != type) {
      throw_unsupported(weights, name, text("is not of the type '{}'", type));
    }
    names.insert(name);
    add_state(weights, name, item, out);
  }
  for (const NamedArray& item : weights.tensors()) {
    const bool is_table = item.name.ends_with(".quant_map") ||
                          item.name.ends_with(".nested_quant_map") ||
                          item.name.find(kQuantState) != item.name.npos;
    if (is_table) continue;
    const Array& array = item.array;
    out.push_back(
        !names.contains(item.name)
            ? item
            : NamedArray{item.name, {array.type(), {array.count()}, array.data(), array.owner()}});
  }
  weights.replace(std::move(out));
  return names;
}

bool is_in_base(const std::set<std::string>& names, const std::string& name,
                const std::string& base) {
  return !base.empty() && name.starts_with(base) && names.contains(name.substr(base.size()));
}

}  // namespace accel
