#include "runner/formats/weight_shards.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runner/formats/plain_file_name.h"
#include "runner/formats/strict_json.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr int kIndexDepth = 8;
constexpr size_t kFileBytes = 256;  // of memory for a weight and its file

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

std::string quoted(const std::string& text) {
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
    throw std::invalid_argument("an index of weights cannot hold a name that is not UTF-8");
  }
}

WeightIndex read_weight_index(std::string_view text) {
  MemoryBudget budget(text.size(), "the index");
  const json index = parse_strict_json(text, "the index", kIndexDepth, budget);
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) {
    throw FormatError("the index has no 'weight_map' that says which file has which weight");
  }
  WeightIndex out;
  for (const auto& [name, value] : map->items()) {
    const auto* file = value.get_ptr<const std::string*>();
    if (!file) throw FormatError("the index has no file name for " + quoted(name));
    if (!is_plain_file_name(*file)) {
      throw FormatError("the index has " + quoted(*file) + " for " + quoted(name) +
                        ", which is no name of a file beside it");
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
    throw FormatError("the index's 'total_size' is no count of bytes");
  }
  out.total_bytes = total->get<uint64_t>();
  return out;
}

}  // namespace accel
