#include "formats/tensors/weight_shards.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string_view>

#include "core/base/text.h"
#include "formats/strict_json.h"
#include "formats/untrusted.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr int kIndexDepth = 8;
constexpr size_t kFileBytes = 256;  // memory per weight and file name

std::string stem_of(WeightFormat format) {
  return format == WeightFormat::kSafetensors ? "model" : "pytorch_model";
}

std::string extension_of(WeightFormat format) {
  return format == WeightFormat::kSafetensors ? ".safetensors" : ".bin";
}

std::string five_digits(size_t number) {
  std::string out = std::to_string(number);
  return out.insert(0, 5 - std::min<size_t>(out.size(), 5), '0');
}

std::string json_quoted(const std::string& text) {
  return json(text).dump(-1, ' ', true, json::error_handler_t::replace);
}

}  // namespace

std::vector<WeightShard> plan_weight_shards(const std::vector<WeightSize>& weights,
                                            uint64_t max_bytes, WeightFormat format) {
  std::vector<WeightShard> shards;
  WeightShard open;
  uint64_t open_bytes = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const uint64_t bytes = weights[i].bytes;
    if (bytes > max_bytes) {
      shards.push_back({"", {i}});
      continue;
    }
    if (bytes > max_bytes - open_bytes) {
      shards.push_back(std::move(open));
      open = {};
      open_bytes = 0;
    }
    open.weights.push_back(i);
    open_bytes += bytes;
  }
  if (!open.weights.empty()) shards.push_back(std::move(open));
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string number = "-" + five_digits(i + 1) + "-of-" + five_digits(shards.size());
    shards[i].file = stem_of(format) + (shards.size() > 1 ? number : "") + extension_of(format);
  }
  return shards;
}

std::string weight_index_name(WeightFormat format) {
  return stem_of(format) + extension_of(format) + ".index.json";
}

std::string weight_index_text(const std::vector<WeightSize>& weights,
                              const std::vector<WeightShard>& shards) {
  json index;
  uint64_t total = 0;
  for (const WeightShard& shard : shards) {
    for (const size_t i : shard.weights) {
      index["weight_map"][weights[i].name] = shard.file;
      total += weights[i].bytes;
    }
  }
  index["metadata"]["total_size"] = total;
  try {
    return index.dump(2, ' ', true) + "\n";
  } catch (const json::type_error&) {
    throw std::invalid_argument("a weight name in an index is not UTF-8");
  }
}

WeightIndex read_weight_index(std::string_view text) {
  MemoryBudget budget(text.size(), "the index");
  const json index = parse_strict_json(text, "the index", kIndexDepth, budget);
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) {
    throw FormatError("the index has no 'weight_map'");
  }
  WeightIndex out;
  for (const auto& [name, value] : map->items()) {
    const auto* file = value.get_ptr<const std::string*>();
    if (!file)
      throw FormatError(accel::text("the index has no file name for {}", json_quoted(name)));
    if (!is_plain_file_name(*file)) {
      throw FormatError(accel::text("the index has {} for {}, which is not a file beside it",
                                    json_quoted(*file), json_quoted(name)));
    }
    budget.take(kFileBytes + name.size() + file->size());
    out.files[name] = *file;
  }
  const auto metadata = index.find("metadata");
  if (metadata == index.end()) return out;
  if (!metadata->is_object()) throw FormatError("the index's 'metadata' is not an object");
  const auto total = metadata->find("total_size");
  if (total == metadata->end()) return out;
  if (!total->is_number_unsigned()) {
    throw FormatError("the index's 'total_size' is not a count of bytes");
  }
  out.total_bytes = total->get<uint64_t>();
  return out;
}

std::set<std::string> WeightIndex::shards() const {
  std::set<std::string> out;
  for (const auto& [weight, file] : files) out.insert(file);
  return out;
}

std::vector<NamedArray> read_weight_shards(const WeightIndex& index, const OpenWeights& open) {
  std::vector<NamedArray> out;
  for (const std::string& shard : index.shards()) {
    for (NamedArray& tensor : open(shard)) {
      const auto found = index.files.find(tensor.name);
      if (found != index.files.end() && found->second == shard) out.push_back(std::move(tensor));
    }
  }
  if (out.size() != index.files.size()) {
    throw FormatError(
        text("it lists {} weights, its files have {} of them", index.files.size(), out.size()));
  }
  return out;
}

std::vector<NamedArray> state_dict_tensors(const Value& value) {
  const auto* dict = value.as<Value::Dict>();
  if (!dict) throw FormatError("it is not a dict of tensors");
  std::vector<NamedArray> out;
  for (const auto& [key, item] : dict->items) {
    const auto* name = key.as<std::string>();
    const auto* array = item.as<Array>();
    if (!name || !array) throw FormatError("it is not a dict of tensors");
    out.push_back({*name, *array});
  }
  return out;
}

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
