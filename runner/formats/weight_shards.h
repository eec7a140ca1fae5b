// A model's weights in several files, cut and listed as Hugging Face's libraries do.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

enum class WeightFormat { kSafetensors, kTorch };

struct WeightSize {
  std::string name;
  uint64_t bytes = 0;
};

struct WeightShard {
  std::string file;             ///< "model-00001-of-00002.safetensors"
  std::vector<size_t> weights;  ///< which of the weights that were given
};

/// Fills one file after the other in the order given; a weight of more than `max_bytes` gets a file
/// of its own, ahead of the one being filled. One file, without a number, when that is enough; none
/// for no weights.
std::vector<WeightShard> plan_weight_shards(const std::vector<WeightSize>& weights,
                                            uint64_t max_bytes, WeightFormat format);

/// "model.safetensors.index.json" or "pytorch_model.bin.index.json"
std::string weight_index_name(WeightFormat format);

/// The index that goes with more than one shard, byte for byte Accelerate's. Throws
/// std::invalid_argument for a name that is not UTF-8.
std::string weight_index_text(const std::vector<WeightSize>& weights,
                              const std::vector<WeightShard>& shards);

struct WeightIndex {
  std::map<std::string, std::string> files;  ///< by the weight's name
  std::optional<uint64_t> total_bytes;
};

/// Reads an index, of any library. Throws FormatError for files that are not plainly names of files
/// beside the index.
WeightIndex read_weight_index(std::string_view text);

}  // namespace accel
