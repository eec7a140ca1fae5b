#include "checkpoint/writer.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "checkpoint/accelerate_files.h"
#include "checkpoint/folder_writer.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/optimizer_state_dict.h"
#include "checkpoint/shard_files.h"
#include "checkpoint/tensors.h"
#include "core/base/parallel.h"

namespace accel {
namespace {

constexpr int64_t kBytesPerTensor = 1024;  // name, shape and padding in file headers
constexpr int64_t kBytesPerRandomStates = int64_t{32} << 10;
constexpr int64_t kBytesPerCheckpoint = int64_t{64} << 10;

/// The arrays of each model, each storage once; the manifest gets the names of tied tensors.
std::vector<std::vector<NamedArray>> untied_arrays(const TrainState& state, Manifest& manifest) {
  using Storage = std::tuple<const void*, std::vector<int64_t>, std::vector<int64_t>>;
  std::map<Storage, std::string> first;
  for (const Parameter& item : state.model) manifest.model.push_back(item.name);
  std::map<std::string, size_t> files = {{"", 0}};
  for (const std::string& model : further_models(manifest.model)) {
    files.emplace(model, files.size());
  }
  std::vector<std::vector<NamedArray>> out(files.size());
  for (const Parameter& item : state.model) {
    const std::string& name = item.name;
    const at::Tensor& tensor = item.local;
    Array array = array_of(tensor, name);
    if (tensor.numel() > 0) {
      const Storage storage = {tensor.data_ptr(), tensor.sizes().vec(), tensor.strides().vec()};
      const auto [seen, fresh] = first.emplace(storage, name);
      if (!fresh) {
        manifest.tied[name] = seen->second;
        continue;
      }
    }
    const auto [model, own_name] = split_name(name);
    out[files.at(model)].push_back({own_name, std::move(array)});
  }
  return out;
}

/// The tensors of sections that are not sharded.
std::vector<NamedArray> section_arrays(const TrainState& state) {
  std::vector<NamedArray> out;
  std::set<const at::Tensor*> sharded;
  for (const auto& [name, section] : state.sections) {
    for (const auto& [key, tensor] : section.tensors) {
      if (is_sharded_section(state, name, key, tensor)) sharded.insert(&tensor);
    }
  }
  for (const auto& [prefix, section] : sections_of(state)) {
    for (const auto& [name, tensor] : section->tensors) {
      // The shards that another rank writes are undefined.
      if (sharded.contains(&tensor) || (state.shards && !tensor.defined())) continue;
      out.push_back({prefix + name, array_of(tensor, prefix + name)});
    }
  }
  return out;
}

/// Counts tensors and their bytes.
struct TensorCount {
  int64_t tensors = 0;
  int64_t bytes = 0;

  void add(const at::Tensor& tensor) {
    ++tensors;
    if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
  }
};

/// All files but those of models and optimizers.
void write_other_files(FolderWriter& writer, const TrainState& state) {
  if (state.scaler) writer.add_value(kScalerFile, scaler_value(*state.scaler));
  writer.add_value(kRandomStatesFile, random_states_value(state, 0));
  for (size_t i = 0; i < state.other_rngs.size(); ++i) {
    writer.add_value(random_states_file(i + 1), random_states_value(state, i + 1));
  }
  for (const auto& [name, section] : state.sections) {
    if (name.starts_with(kCustomSection)) {
      writer.add_value(kCustomFilePrefix + name.substr(kCustomSection.size()) + ".pkl",
                       custom_value(section));
    }
  }
  writer.add_tensors(kStateFile, section_arrays(state));
}

void write_manifest_file(Files& files, const std::string& folder, FolderWriter& writer,
                         const Manifest& manifest) {
  writer.add_text(kManifestFile, write_manifest(manifest));
  files.sync_dir(folder);
}

}  // namespace

int64_t checkpoint_bytes(const TrainState& state) {
  TensorCount count;
  for (const Parameter& named : state.model) count.add(named.local);
  for (const OptimizerState::Group& group : state.optimizer.groups) {
    for (const OptimizerState::ParameterState& parameter : group.parameters) {
      for (const Parameter& slot : parameter.slots) count.add(slot.local);
    }
  }
  for (const auto& [prefix, section] : sections_of(state)) {
    for (const auto& [name, tensor] : section->tensors) count.add(tensor);
  }
  for (size_t i = 0; i < state.other_rngs.size(); ++i) count.bytes += kBytesPerRandomStates;
  return count.bytes + count.tensors * kBytesPerTensor + kBytesPerCheckpoint +
         static_cast<int64_t>(2 * state.recipe.size());
}

void write_checkpoint(Files& files, const std::string& folder, const TrainState& state) {
  Manifest manifest;
  manifest.state = state;
  manifest.optimizer = optimizer_parameters(state.optimizer);
  FolderWriter writer(files, folder);
  const std::vector<std::vector<NamedArray>> models = untied_arrays(state, manifest);
  const std::vector<TrainState> optimizers = split_optimizers(state);
  std::vector<std::function<void()>> work;
  for (size_t i = 0; i < models.size(); ++i) {
    work.push_back([&, i] { writer.add_tensors(numbered_file(kModelFile, i), models[i]); });
  }
  for (size_t i = 0; i < optimizers.size(); ++i) {
    work.push_back([&, i] {
      writer.add_value(numbered_file(kOptimizerFile, i), optimizer_value(optimizers[i]));
      writer.add_value(numbered_file(kSchedulerFile, i), scheduler_value(optimizers[i]));
    });
  }
  parallel_invoke(files.threads(), work);
  write_other_files(writer, state);
  manifest.files = writer.records();
  write_manifest_file(files, folder, writer, manifest);
}

ShardRecord write_shards(Files& files, const std::string& folder, const TrainState& state) {
  ShardRecord record = write_shard_files(files, folder, state);
  if (state.shards->rank != 0) return record;
  FolderWriter writer(files, folder);
  const std::vector<TrainState> optimizers = split_optimizers(state);
  for (size_t i = 0; i < optimizers.size(); ++i) {
    writer.add_value(numbered_file(kSchedulerFile, i), scheduler_value(optimizers[i]));
  }
  write_other_files(writer, state);
  record.files.insert(writer.records().begin(), writer.records().end());
  return record;
}

void finish_shards(Files& files, const std::string& folder, const TrainState& state,
                   std::vector<ShardRecord> ranks) {
  Manifest manifest;
  manifest.state = state;
  for (const Parameter& item : state.model) manifest.model.push_back(item.name);
  manifest.optimizer = optimizer_parameters(state.optimizer);
  FolderWriter writer(files, folder);
  write_shard_metadata(files, writer, folder, ranks);
  manifest.files = writer.records();
  for (const ShardRecord& rank : ranks) {
    manifest.files.insert(rank.files.begin(), rank.files.end());
  }
  write_manifest_file(files, folder, writer, manifest);
}

}  // namespace accel
