// Weights of a model in shards with an index, as in Hugging Face folders, and parameter counts.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensors/pickle.h"
#include "formats/tensors/safetensors.h"

namespace accel {

enum class WeightFormat { kSafetensors, kTorch };

struct WeightSize {
  std::string name;
  uint64_t bytes = 0;
};

struct WeightShard {
  std::string file;             ///< "model-00001-of-00002.safetensors"
  std::vector<size_t> weights;  ///< indices of its weights
};

/// Assigns weights to shards in order. A weight of more than `max_bytes` gets its own shard, ahead
/// of the current one. A single shard has no number; no weights give no shards.
std::vector<WeightShard> plan_weight_shards(const std::vector<WeightSize>& weights,
                                            uint64_t max_bytes, WeightFormat format);

/// "model.safetensors.index.json" or "pytorch_model.bin.index.json"
std::string weight_index_name(WeightFormat format);

/// The index of several shards, the same bytes as Accelerate's. Throws std::invalid_argument for a
/// name that is not UTF-8.
std::string weight_index_text(const std::vector<WeightSize>& weights,
                              const std::vector<WeightShard>& shards);

struct WeightIndex {
  std::map<std::string, std::string> files;  ///< by weight
  std::optional<uint64_t> total_bytes;

  std::set<std::string> shards() const;
};

/// Reads an index of any library. Throws FormatError for shards outside the folder.
WeightIndex read_weight_index(std::string_view text);

/// Returns the tensors of a file by name.
using OpenWeights = std::function<std::vector<NamedArray>(const std::string& file)>;

/// The weights of an index, each from its shard. Throws FormatError for a weight that its shard
/// lacks.
std::vector<NamedArray> read_weight_shards(const WeightIndex& index, const OpenWeights& open);

/// The tensors of a pickled state_dict. Throws FormatError for other values.
std::vector<NamedArray> state_dict_tensors(const Value& value);

/// Parameter counts, not bytes.
struct ModelSizes {
  int64_t total = 0;
  int64_t largest = 0;        ///< layer
  std::string largest_layer;  ///< "transformer.h.0"; of equal ones the first by name
};

/// A layer is a unit of device placement: an item of a ModuleList ("h.0"), or else a module with
/// parameters ("wte").
ModelSizes model_sizes(const std::vector<NamedArray>& weights);

}  // namespace accel
