#include "runner/checkpoint/reader.h"

#include <algorithm>

#include "runner/checkpoint/accelerate_files.h"
#include "runner/checkpoint/folder_reader.h"
#include "runner/checkpoint/layout.h"
#include "runner/checkpoint/tensors.h"

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
    if (found == tensors.end()) {
      throw_damaged(folder, kModelFile, "lacks the tensor '" + name + "'");
    }
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
  reader.value(kOptimizerFile,
               [&](const Value& value) { read_optimizer(value, manifest.optimizer, state); });
  reader.value(kRandomStatesFile,
               [&](const Value& value) { state.rng = read_random_state(value); });
  return state;
}

TrainState read_accelerate_checkpoint(Files& files, const std::string& folder,
                                      const LoadOptions& options) {
  const std::map<std::string, DirEntry> entries = entries_of(files, folder);
  const FolderReader reader(files, folder);
  TrainState state;
  if (entries.contains(kModelFile)) {
    for (const auto& [name, array] : reader.tensors(kModelFile)) {
      state.model.push_back({name, tensor_of(array)});
    }
  } else if (entries.contains(kPickledModelFile)) {
    reader.value(kPickledModelFile,
                 [&](const Value& value) { state.model = pickled_model(value); });
  } else {
    throw CheckpointError("'" + folder + "' is no checkpoint: it has neither '" + kManifestFile +
                          "' nor '" + kModelFile + "'");
  }
  if (entries.contains(kSchedulerFile)) {
    reader.value(kSchedulerFile, [&](const Value& value) { read_scheduler(value, state); });
  }
  if (entries.contains(kOptimizerFile) && !options.parameters.empty()) {
    reader.value(kOptimizerFile,
                 [&](const Value& value) { read_optimizer(value, options.parameters, state); });
  }
  if (entries.contains(kScalerFile)) {
    reader.value(kScalerFile, [&](const Value& value) { state.scaler = read_scaler(value); });
  }
  if (entries.contains(kRandomStatesFile)) {
    reader.value(kRandomStatesFile,
                 [&](const Value& value) { state.rng = read_random_state(value); });
  }
  if (options.report) {
    options.report(
        "checkpoint '" + folder + "' has no '" + kManifestFile +
        "': the model, optimizer and generator are taken, step and data position start at 0");
  }
  return state;
}

}  // namespace accel
