#include "checkpoint/accelerate_folder.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "checkpoint/dcp_tree.h"
#include "checkpoint/deepspeed_folder.h"
#include "checkpoint/file_names.h"
#include "checkpoint/folder_reader.h"
#include "core/base/text.h"
#include "formats/tensors/dcp.h"
#include "formats/tensors/weight_shards.h"

namespace accel {
namespace {

constexpr auto kFullModelFile = "pytorch_model_fsdp.bin";

DcpState read_dcp_folder(Files& files, const std::string& folder) {
  const FolderReader reader(files, folder);
  return guarded(folder, kDcpMetadataFile, [&] {
    return read_dcp([&](const std::string& name) { return reader.bytes(name); });
  });
}

/// The tensors of a pickled state_dict.
std::vector<NamedArray> pickled_tensors(const FolderReader& reader, const std::string& name) {
  std::vector<NamedArray> out;
  reader.value(name, [&](const Value& value) { out = state_dict_tensors(value); });
  return out;
}

std::vector<NamedArray> tensors_of(const FolderReader& reader, const std::string& file) {
  return file.ends_with(".safetensors") ? reader.tensors(file) : pickled_tensors(reader, file);
}

/// The weights of an index, each from its file.
Weights indexed_weights(const FolderReader& reader, const std::string& index) {
  const SharedBytes content = reader.bytes(index);
  Weights out;
  guarded(reader.folder(), index, [&] {
    const WeightIndex list = read_weight_index(as_text(content.view));
    out.files = list.shards();
    out.tensors = read_weight_shards(
        list, [&](const std::string& shard) { return tensors_of(reader, shard); });
  });
  out.files.insert(index);
  return out;
}

/// The weights of a distributed checkpoint, without a common top-level key.
std::vector<NamedArray> distributed_weights(DcpState state) {
  std::set<std::string> tops;
  for (const NamedArray& tensor : state.tensors) {
    const auto path = state.paths.find(tensor.name);
    const bool nested = path != state.paths.end() && path->second.size() > 1;
    const auto* top = nested ? path->second.front().as<std::string>() : nullptr;
    tops.insert(top ? *top + "." : "");
  }
  if (tops.size() != 1) return std::move(state.tensors);
  const std::string& top = *tops.begin();
  for (NamedArray& tensor : state.tensors) {
    if (tensor.name.starts_with(top)) tensor.name.erase(0, top.size());
  }
  return std::move(state.tensors);
}

/// The weights of model `number`; null when the folder has none.
std::optional<Weights> numbered_weights(Files& files, const FolderReader& reader,
                                        const std::map<std::string, DirEntry>& entries,
                                        size_t number) {
  for (const char* name : {kModelFile, kPickledModelFile, kFullModelFile}) {
    const std::string file = numbered_file(name, number), index = file + ".index.json";
    if (entries.contains(file)) return Weights{tensors_of(reader, file), {file}};
    if (entries.contains(index)) return indexed_weights(reader, index);
  }
  const std::string shards = kShardedModelPrefix + std::to_string(number);
  if (!entries.contains(shards)) return std::nullopt;
  return Weights{distributed_weights(read_dcp_folder(files, reader.folder() + "/" + shards)),
                 {shards}};
}

Value read_sharded_optimizer(Files& files, const std::string& folder) {
  const DcpState state = read_dcp_folder(files, folder);
  return guarded(folder, kDcpMetadataFile, [&] { return optimizer_of_dcp(state); });
}

/// DeepSpeed writes its converter beside the folder of the partitions.
void refuse_deepspeed(const std::string& folder, const std::map<std::string, DirEntry>& entries) {
  if (!entries.contains("zero_to_fp32.py")) return;
  throw CheckpointError(
      text("'{}' is a checkpoint of DeepSpeed without its partitions: it has no 'latest' and no "
           "'pytorch_model'",
           folder),
      "give the folder that has the files '*_model_states.pt' and '*_optim_states.pt'");
}

/// The engines of DeepSpeed with their optimizers; false for another folder.
bool read_deepspeed_models(Files& files, const std::string& folder,
                           const std::map<std::string, DirEntry>& entries,
                           const std::set<std::string>& without, AccelerateFolder& out) {
  for (size_t number = 0;; ++number) {
    std::optional<DeepSpeedState> zero = read_deepspeed_folder(files, folder, entries, number);
    if (!zero) return number > 0;
    if (zero->optimizer && !without.contains(kOptimizerFile)) {
      out.optimizers.push_back(std::move(*zero->optimizer));
    }
    if (zero->scheduler && !without.contains(kSchedulerFile)) {
      out.schedulers.push_back(std::move(*zero->scheduler));
    }
    out.files.insert(zero->files.begin(), zero->files.end());
    if (number == 0) {
      out.model = std::move(zero->model);
    } else {
      out.further_models.push_back(std::move(zero->model));
      out.further_files.push_back(std::move(zero->files));
    }
  }
}

/// The rank in "random_states_<rank>.pkl".
std::optional<int> rank_of(std::string_view name) {
  constexpr std::string_view kPrefix = "random_states_", kSuffix = ".pkl";
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  int rank = 0;
  const auto [end, error] = std::from_chars(name.begin(), name.end(), rank);
  if (error != std::errc() || end != name.end() || rank < 0) return std::nullopt;
  return rank;
}

}  // namespace

Weights read_weights(Files& files, const std::string& folder) {
  const std::map<std::string, DirEntry> entries = entries_of(files, folder);
  if (std::optional<DeepSpeedState> zero = read_deepspeed_folder(files, folder, entries, 0)) {
    return {std::move(zero->model), std::move(zero->files)};
  }
  const FolderReader reader(files, folder);
  if (std::optional<Weights> weights = numbered_weights(files, reader, entries, 0)) {
    return std::move(*weights);
  }
  if (entries.contains(kDcpMetadataFile)) {
    return {distributed_weights(read_dcp_folder(files, folder)), {kDcpMetadataFile}};
  }
  refuse_deepspeed(folder, entries);
  throw CheckpointError(
      text("'{}' is not a checkpoint or model folder: it has no '{}', '{}', '{}' or index of "
           "these, no '{}', '{}0' or '{}'",
           folder, kManifestFile, kModelFile, kPickledModelFile, kFullModelFile,
           kShardedModelPrefix, kDcpMetadataFile),
      "give a checkpoint, a model folder, or a folder of FSDP's shards");
}

AccelerateFolder read_accelerate_folder(Files& files, const std::string& folder,
                                        const std::set<std::string>& without) {
  std::map<std::string, DirEntry> entries = entries_of(files, folder);
  std::erase_if(entries, [&](const auto& entry) { return without.contains(entry.first); });
  const FolderReader reader(files, folder);
  AccelerateFolder out;
  if (!read_deepspeed_models(files, folder, entries, without, out)) {
    Weights weights = read_weights(files, folder);
    out.model = std::move(weights.tensors);
    out.files = std::move(weights.files);
  }
  while (auto further = numbered_weights(files, reader, entries, out.further_models.size() + 1)) {
    out.further_models.push_back(std::move(further->tensors));
    out.files.insert(further->files.begin(), further->files.end());
    out.further_files.push_back(std::move(further->files));
  }
  const auto take = [&](const std::string& name) -> std::optional<Value> {
    if (!entries.contains(name)) return std::nullopt;
    out.files.insert(name);
    return reader.torch_file(name);
  };
  const auto take_shards = [&](const std::string& name) -> std::optional<Value> {
    if (!entries.contains(name)) return std::nullopt;
    out.files.insert(name);
    return read_sharded_optimizer(files, folder + "/" + name);
  };
  for (size_t i = 0;; ++i) {
    std::optional<Value> optimizer = take(numbered_file(kOptimizerFile, i));
    if (!optimizer) optimizer = take_shards(kShardedOptimizerPrefix + std::to_string(i));
    if (!optimizer) break;
    out.optimizers.push_back(std::move(*optimizer));
  }
  while (auto scheduler = take(numbered_file(kSchedulerFile, out.schedulers.size()))) {
    out.schedulers.push_back(std::move(*scheduler));
  }
  out.scaler = take(kScalerFile);
  for (const auto& [name, entry] : entries) {
    if (const std::optional<int> rank = rank_of(name)) out.random_states[*rank] = *take(name);
  }
  return out;
}

}  // namespace accel
