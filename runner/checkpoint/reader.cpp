#include "runner/checkpoint/reader.h"

#include <algorithm>
#include <set>

#include "runner/checkpoint/accelerate_files.h"
#include "runner/checkpoint/folder_reader.h"
#include "runner/checkpoint/layout.h"
#include "runner/checkpoint/several_optimizers.h"
#include "runner/checkpoint/tensors.h"
#include "runner/checkpoint/torch_schedule.h"

namespace accel {
namespace {

constexpr auto kPickledModelFile = "pytorch_model.bin";
constexpr int64_t kMaxManifestBytes = int64_t{256} << 20;
Manifest manifest_in(Files& files, const std::string& folder,
                     const std::map<std::string, DirEntry>& entries) {
  const auto found = entries.find(kManifestFile);
  if (found == entries.end()) {
    throw CheckpointError("'" + folder + "' is no checkpoint: it has no '" + kManifestFile + "'");
  }
  if (found->second.kind != DirEntry::Kind::kFile || found->second.bytes > kMaxManifestBytes) {
    throw_damaged(folder, kManifestFile, "is no file of a checkpoint");
  }
  const SharedBytes file = FolderReader(files, folder).bytes(kManifestFile);
  return guarded(folder, kManifestFile, [&] { return read_manifest(as_text(file.view)); });
}

/// "optimizer.bin" and those of "optimizer_1.bin", ... that are there.
template <class Map>
std::vector<std::string> numbered(const std::string& name, const Map& files) {
  std::vector<std::string> out = {name};
  while (files.contains(numbered_file(name, out.size()))) {
    out.push_back(numbered_file(name, out.size()));
  }
  return out;
}

std::map<std::string, at::Tensor> by_name(const std::vector<NamedArray>& arrays) {
  std::map<std::string, at::Tensor> out;
  for (const auto& [name, array] : arrays) out[name] = tensor_of(array);
  return out;
}

void read_model(const std::string& folder, const Manifest& manifest,
                const std::map<std::string, at::Tensor>& tensors, TrainState& state) {
  for (const std::string& name : manifest.model) {
    const auto tied = manifest.tied.find(name);
    const auto found = tensors.find(tied == manifest.tied.end() ? name : tied->second);
    if (found == tensors.end())
      throw_damaged(folder, kModelFile, "lacks the tensor '" + name + "'");
    state.model.push_back({name, found->second});
  }
}

void read_sections(const std::string& folder, const std::map<std::string, at::Tensor>& tensors,
                   TrainState& state) {
  for (const auto& [prefix, section] : sections_of(state)) {
    for (auto& [name, tensor] : section->tensors) {
      const auto found = tensors.find(prefix + name);
      if (found == tensors.end()) {
        throw_damaged(folder, kPartsFile, "lacks the tensor '" + prefix + name + "'");
      }
      tensor = found->second;
    }
  }
}

std::vector<NamedTensor> pickled_model(const Value& value) {
  const auto* dict = value.as<Value::Dict>();
  if (!dict) throw FormatError("it is not a dict of tensors");
  std::vector<NamedTensor> out;
  for (const auto& [key, item] : dict->items) {
    const auto* name = key.as<std::string>();
    const auto* array = item.as<Array>();
    if (!name || !array) throw FormatError("it is not a dict of tensors");
    out.push_back({*name, tensor_of(*array)});
  }
  return out;
}

/// Reads the model's file and returns its name.
std::string read_foreign_model(const std::string& folder,
                               const std::map<std::string, DirEntry>& entries,
                               const FolderReader& reader, TrainState& state) {
  if (entries.contains(kModelFile)) {
    for (const auto& [name, array] : reader.tensors(kModelFile)) {
      state.model.push_back({name, tensor_of(array)});
    }
    return kModelFile;
  }
  if (!entries.contains(kPickledModelFile)) {
    throw CheckpointError("'" + folder + "' is no checkpoint: it has neither '" + kManifestFile +
                          "' nor '" + kModelFile + "' nor '" + kPickledModelFile + "'");
  }
  reader.value(kPickledModelFile, [&](const Value& value) { state.model = pickled_model(value); });
  return kPickledModelFile;
}

/// Running numbers mean nothing when the parameters are others.
void check_parameters(const std::string& folder, const Value& optimizer, size_t wanted) {
  const size_t count = count_parameters(optimizer);
  if (count == wanted) return;
  throw CheckpointError("'" + folder + "/" + kOptimizerFile + "' has " + std::to_string(count) +
                            " parameters, the recipe trains " + std::to_string(wanted),
                        "train the model that it was made with");
}

bool is_random_states(const std::string& name) {
  return name.starts_with("random_states_") && name.ends_with(".pkl");
}

}  // namespace

bool has_manifest(Files& files, const std::string& folder) {
  return entries_of(files, folder).contains(kManifestFile);
}

Manifest inspect_checkpoint(Files& files, const std::string& folder) {
  const std::map<std::string, DirEntry> entries = entries_of(files, folder);
  Manifest manifest = manifest_in(files, folder, entries);
  for (const auto& [name, record] : manifest.files) {
    const auto found = entries.find(name);
    if (found == entries.end()) throw_damaged(folder, name, "is missing");
    if (found->second.kind != DirEntry::Kind::kFile)
      throw_damaged(folder, name, "is no regular file");
    require_size(folder, name, found->second.bytes, record.bytes);
  }
  return manifest;
}

void verify_checkpoint(Files& files, const std::string& folder) {
  for (const auto& [name, record] : inspect_checkpoint(files, folder).files) {
    verified_file(files, folder, name, record);
  }
}

TrainState read_checkpoint(Files& files, const std::string& folder) {
  Manifest manifest = inspect_checkpoint(files, folder);
  TrainState state = manifest.state;
  const FolderReader reader(files, folder, manifest);
  read_model(folder, manifest, by_name(reader.tensors(kModelFile)), state);
  read_sections(folder, by_name(reader.tensors(kPartsFile)), state);
  reader.values(numbered(kOptimizerFile, manifest.files), [&](std::vector<Value> values) {
    read_optimizer(join_optimizers(std::move(values)), manifest.optimizer, state);
  });
  reader.value(kRandomStatesFile,
               [&](const Value& value) { state.rng = read_random_state(value); });
  return state;
}

TrainState read_accelerate_checkpoint(Files& files, const std::string& folder,
                                      const LoadOptions& options) {
  std::map<std::string, DirEntry> entries = entries_of(files, folder);
  std::erase_if(entries, [&](const auto& entry) { return options.without.contains(entry.first); });
  const FolderReader reader(files, folder);
  TrainState state;
  AccelerateNotes notes;
  std::set<std::string> used;
  /// Gives the files to `use` if the first is there.
  const auto take = [&](const std::vector<std::string>& names, const auto& use) {
    if (!entries.contains(names.front())) {
      notes.absent.push_back(names.front());
      return;
    }
    reader.values(names, use);
    used.insert(names.begin(), names.end());
  };
  used.insert(read_foreign_model(folder, entries, reader, state));
  take(numbered(kSchedulerFile, entries), [&](const std::vector<Value>& values) {
    std::vector<TorchSchedule> schedules;
    for (const Value& value : values) schedules.push_back(read_torch_schedule(value));
    notes.schedule = join_schedules(schedules);
    read_scheduler(values.front(), state);
    state.base_lrs = notes.schedule->base_lrs;
    state.lrs = notes.schedule->last_lrs;
  });
  if (!options.parameters.empty()) {
    take(numbered(kOptimizerFile, entries), [&](std::vector<Value> values) {
      const Value joined = join_optimizers(std::move(values));
      check_parameters(folder, joined, options.parameters.size());
      read_optimizer(joined, options.parameters, state);
      notes.updates = updates_in(state.optimizer);
    });
  }
  take({kScalerFile},
       [&](const std::vector<Value>& values) { state.scaler = read_scaler(values.front()); });
  take({kRandomStatesFile},
       [&](const std::vector<Value>& values) { state.rng = read_random_state(values.front()); });
  // A scaler that is switched off has an empty state.
  if (state.scaler && state.scaler->numbers.empty()) state.scaler.reset();
  for (const auto& [name, entry] : entries) {
    if (!used.contains(name)) notes.not_used.push_back(name);
    notes.processes += is_random_states(name) && name != kRandomStatesFile;
  }
  state.accelerate = std::move(notes);
  return state;
}

}  // namespace accel
