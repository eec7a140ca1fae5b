#include "checkpoint/reader.h"

#include <algorithm>
#include <set>

#include "checkpoint/accelerate_files.h"
#include "checkpoint/accelerate_folder.h"
#include "checkpoint/folder_reader.h"
#include "checkpoint/layout.h"
#include "checkpoint/optimizer_state_dict.h"
#include "checkpoint/shard_reader.h"
#include "checkpoint/stored_layout.h"
#include "checkpoint/tensors.h"
#include "checkpoint/torch_schedule.h"
#include "core/base/activity.h"
#include "core/base/parallel.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr int64_t kMaxManifestBytes = int64_t{256} << 20;

Manifest manifest_in(Files& files, const std::string& folder,
                     const std::map<std::string, DirEntry>& entries) {
  const auto found = entries.find(kManifestFile);
  if (found == entries.end()) {
    throw CheckpointError(text("'{}' is not a checkpoint: it has no '{}'", folder, kManifestFile));
  }
  if (found->second.kind != DirEntry::Kind::kFile || found->second.bytes > kMaxManifestBytes) {
    throw_damaged(folder, kManifestFile, "is not a manifest");
  }
  const SharedBytes file = FolderReader(files, folder).bytes(kManifestFile);
  return guarded(folder, kManifestFile, [&] { return read_manifest(as_text(file.view)); });
}

/// "optimizer.bin" and the existing files of "optimizer_1.bin", ...
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

void read_model(const std::string& folder, const Manifest& manifest, const FolderReader& reader,
                TrainState& state) {
  std::map<std::string, std::string> files = {{"", kModelFile}};
  for (const std::string& model : further_models(manifest.model)) {
    files.emplace(model, numbered_file(kModelFile, files.size()));
  }
  std::map<std::string, std::map<std::string, at::Tensor>> tensors;
  for (const auto& [model, file] : files) tensors[model] = by_name(reader.tensors(file));
  for (const std::string& name : manifest.model) {
    const auto tied = manifest.tied.find(name);
    const auto [model, own_name] = split_name(tied == manifest.tied.end() ? name : tied->second);
    const auto found = tensors[model].find(own_name);
    if (found == tensors[model].end()) {
      throw_damaged(folder, files[model], text("has no tensor '{}'", own_name));
    }
    state.model.push_back({name, found->second});
  }
}

void read_optimizers(const FolderReader& reader, const Manifest& manifest, TrainState& state) {
  reader.values(numbered(kOptimizerFile, manifest.files), [&](std::vector<Value> values) {
    read_optimizer(join_optimizers(std::move(values)), manifest.optimizer, state);
  });
}

void read_shards(const FolderReader& reader, const Manifest& manifest, const LoadOptions& options,
                 TrainState& state) {
  read_model_shards(reader, manifest, options.region_of, state);
  if (!options.without_optimizer) {
    read_optimizer_shards(reader, manifest, options.region_of, state);
  }
  read_section_shards(reader, manifest, options.region_of, state);
}

void read_sections(const std::string& folder, const std::map<std::string, at::Tensor>& tensors,
                   TrainState& state) {
  for (const auto& [prefix, section] : sections_of(state)) {
    for (auto& [name, tensor] : section->tensors) {
      if (tensor.defined()) continue;
      const auto found = tensors.find(prefix + name);
      if (found == tensors.end()) {
        throw_damaged(folder, kStateFile, text("has no tensor '{}{}'", prefix, name));
      }
      tensor = found->second;
    }
  }
}

/// Whether the file has ids for frozen parameters too. Only with one group is their order known.
bool has_frozen_ids(const Value& optimizer, const LoadOptions& options) {
  return options.with_frozen.size() > options.parameters.size() &&
         count_parameters(optimizer) == options.with_frozen.size() &&
         items_of(optimizer.find("param_groups"), "param_groups").size() == 1;
}

/// Drops frozen parameters. Returns those with state.
std::vector<std::string> drop_frozen(const LoadOptions& options, OptimizerState& optimizer) {
  const std::set<std::string> trained(options.parameters.begin(), options.parameters.end());
  std::vector<std::string> out;
  for (OptimizerState::Group& group : optimizer.groups) {
    std::erase_if(group.parameters, [&](const OptimizerState::ParameterState& parameter) {
      if (trained.contains(parameter.name)) return false;
      if (!parameter.slots.empty()) out.push_back(parameter.name);
      return true;
    });
  }
  return out;
}

/// DDP's and torch.compile()'s names of the model that they wrap.
constexpr std::string_view kWrappers[] = {"module.", "_orig_mod."};

/// The names that wrappers add in front of all tensors of a model, the outermost first.
std::string wrapper_prefix(const std::vector<NamedArray>& tensors) {
  std::string out;
  for (bool found = !tensors.empty(); found;) {
    found = false;
    for (const std::string_view wrapper : kWrappers) {
      const std::string longer = out + std::string(wrapper);
      found = std::all_of(tensors.begin(), tensors.end(), [&](const NamedArray& tensor) {
        return tensor.name.starts_with(longer);
      });
      if (!found) continue;
      out = longer;
      break;
    }
  }
  return out;
}

void remove_wrapper(std::vector<NamedArray>& tensors, AccelerateNotes& notes) {
  const std::string prefix = wrapper_prefix(tensors);
  if (prefix.empty()) return;
  notes.wrapper = prefix;
  for (NamedArray& tensor : tensors) tensor.name.erase(0, prefix.size());
}

/// Names in the state of a sharded optimizer have the model's prefix.
void remove_wrapper(const std::string& prefix, OptimizerState& optimizer) {
  for (OptimizerState::Group& group : optimizer.groups) {
    for (OptimizerState::ParameterState& item : group.parameters) {
      if (!prefix.empty() && item.name.starts_with(prefix)) item.name.erase(0, prefix.size());
    }
  }
}

/// LoadOptions::parameters by group.
std::vector<std::vector<std::string>> groups_of(const LoadOptions& options) {
  std::vector<std::vector<std::string>> out;
  size_t first = 0;
  for (const size_t size : options.group_sizes) {
    const auto begin = options.parameters.begin() + static_cast<std::ptrdiff_t>(first);
    out.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
    first += size;
  }
  return out;
}

/// The options with names of parameters in the layout.
LoadOptions in_layout(LoadOptions options) {
  const auto flat = [&](const std::vector<std::vector<std::string>>& groups) {
    std::vector<std::string> out;
    for (const auto& group : stored_groups(*options.layout, groups)) {
      out.insert(out.end(), group.begin(), group.end());
    }
    return out;
  };
  options.parameters = flat(groups_of(options));
  options.with_frozen = flat({options.with_frozen});
  return options;
}

/// Ids are valid only for the same parameters.
void check_parameters(const std::string& folder, const Value& optimizer, size_t wanted) {
  const size_t count = count_parameters(optimizer);
  if (count == wanted) return;
  throw CheckpointError(text("'{}/{}' has {} parameters, the recipe trains {}", folder,
                             kOptimizerFile, count, wanted),
                        "train the model of the checkpoint");
}

void read_schedulers(const std::vector<Value>& values, TrainState& state, AccelerateNotes& notes) {
  std::vector<TorchSchedule> schedules;
  for (const Value& value : values) schedules.push_back(read_torch_schedule(value));
  notes.schedule = join_schedules(schedules);
  read_scheduler(values.front(), state);
  state.base_lrs = notes.schedule->base_lrs;
  state.lrs = notes.schedule->last_lrs;
}

/// Further models by their names, or 'model_1' and so on with LoadOptions::numbered. Skips models
/// without a name.
void add_models(const AccelerateFolder& content, const LoadOptions& options, TrainState& state) {
  for (const auto& [name, array] : content.model) state.model.push_back({name, tensor_of(array)});
  for (size_t i = 0; i < content.further_models.size(); ++i) {
    std::string model = options.numbered ? "model_" + std::to_string(i + 1) : "";
    if (i < options.models.size()) model = options.models[i];
    if (model.empty()) break;
    for (const auto& [name, array] : content.further_models[i]) {
      state.model.push_back({std::string(model).append("/").append(name), tensor_of(array)});
    }
  }
}

/// Lists missing and unused files.
void note_files(Files& files, const std::string& folder, const LoadOptions& options,
                const AccelerateFolder& content, AccelerateNotes& notes) {
  if (content.schedulers.empty()) notes.absent.emplace_back(kSchedulerFile);
  if (content.optimizers.empty() && !options.parameters.empty()) {
    notes.absent.emplace_back(kOptimizerFile);
  }
  if (!content.scaler) notes.absent.emplace_back(kScalerFile);
  if (!content.random_states.contains(0)) notes.absent.emplace_back(kRandomStatesFile);
  std::set<std::string> used = content.files;
  for (size_t i = options.models.size(); !options.numbered && i < content.further_files.size();
       ++i) {
    for (const std::string& file : content.further_files[i]) used.erase(file);
  }
  int next = 1;
  for (const auto& [rank, states] : content.random_states) {
    if (rank == 0) continue;
    // The rank of files after a gap is unknown.
    if (rank != next++) used.erase(random_states_file(static_cast<size_t>(rank)));
    ++notes.processes;
  }
  for (const auto& [name, entry] : entries_of(files, folder)) {
    if (!used.contains(name) && !options.without.contains(name)) notes.not_used.push_back(name);
  }
}

/// Reads the optimizer with ids in the order of `options`.
void read_ids(const std::string& folder, const AccelerateFolder& content,
              const LoadOptions& options, TrainState& state, AccelerateNotes& notes) {
  guarded(folder, kOptimizerFile, [&] {
    const Value joined = join_optimizers(content.optimizers);
    std::vector<std::string> names = options.parameters;
    for (size_t i = 0; options.numbered && i < count_parameters(joined); ++i) {
      names.push_back(std::to_string(i));
    }
    const bool frozen = has_frozen_ids(joined, options);
    if (frozen) names = options.with_frozen;
    check_parameters(folder, joined, names.size());
    read_optimizer(joined, names, state);
    remove_wrapper(notes.wrapper, state.optimizer);
    notes.frozen.clear();
    if (frozen) notes.frozen = drop_frozen(options, state.optimizer);
    notes.updates = updates_in(state.optimizer);
  });
}

/// Reads the optimizer, and converts a state in the layout of `options`.
void read_accelerate_optimizer(const std::string& folder, const AccelerateFolder& content,
                               const LoadOptions& options, TrainState& state,
                               AccelerateNotes& notes) {
  const bool stored = options.layout && is_stored_as(*options.layout, state.model);
  const bool reads =
      !content.optimizers.empty() && (options.numbered || !options.parameters.empty());
  if (reads) read_ids(folder, content, stored ? in_layout(options) : options, state, notes);
  if (!stored) return;
  // A model with the same names whose modules are registered in the built-in order, such as
  // RoBERTa of transformers 4.
  const bool built_in =
      reads && only_reorders(*options.layout) && !fits_moments(*options.layout, state.optimizer);
  if (built_in) read_ids(folder, content, options, state, notes);
  from_stored(*options.layout, state);
}

int64_t total_bytes(const std::map<std::string, FileRecord>& records) {
  int64_t bytes = 0;
  for (const auto& [name, record] : records) bytes += record.bytes;
  return bytes;
}

/// The entries of a folder and those of the subfolders of a manifest's files, by path.
std::map<std::string, DirEntry> entries_for(Files& files, const std::string& folder,
                                            std::map<std::string, DirEntry> entries,
                                            const Manifest& manifest) {
  std::set<std::string> folders;
  for (const auto& [name, record] : manifest.files) {
    const size_t slash = name.find('/');
    if (slash != name.npos) folders.insert(name.substr(0, slash));
  }
  for (const std::string& name : folders) {
    const auto found = entries.find(name);
    if (found == entries.end()) throw_damaged(folder, name, "is missing");
    if (found->second.kind != DirEntry::Kind::kFolder)
      throw_damaged(folder, name, "is not a folder");
    for (auto& [inside, entry] : entries_of(files, folder + "/" + name)) {
      entries.emplace(std::string(name).append("/").append(inside), std::move(entry));
    }
  }
  return entries;
}

/// The files of `rank`: the largest go first, each to the rank with the fewest bytes.
std::vector<std::string> share_of_files(const std::map<std::string, FileRecord>& records,
                                        int64_t rank, int64_t ranks) {
  std::vector<std::pair<int64_t, std::string>> by_size;
  for (const auto& [name, record] : records) by_size.emplace_back(-record.bytes, name);
  std::sort(by_size.begin(), by_size.end());
  std::vector<int64_t> bytes(static_cast<size_t>(ranks), 0);
  std::vector<std::string> out;
  for (const auto& [size, name] : by_size) {
    const auto least = std::min_element(bytes.begin(), bytes.end());
    *least -= size;
    if (least - bytes.begin() == rank) out.push_back(name);
  }
  return out;
}

}  // namespace

bool has_manifest(Files& files, const std::string& folder) {
  return entries_of(files, folder).contains(kManifestFile);
}

std::optional<int64_t> step_in_manifest(Files& files, const std::string& folder) {
  try {
    return manifest_in(files, folder, entries_of(files, folder)).state.progress.step;
  } catch (const CheckpointError&) {
    return std::nullopt;
  }
}

Manifest inspect_checkpoint(Files& files, const std::string& folder) {
  std::map<std::string, DirEntry> entries = entries_of(files, folder);
  Manifest manifest = manifest_in(files, folder, entries);
  entries = entries_for(files, folder, std::move(entries), manifest);
  for (const auto& [name, record] : manifest.files) {
    const auto found = entries.find(name);
    if (found == entries.end()) throw_damaged(folder, name, "is missing");
    if (found->second.kind != DirEntry::Kind::kFile)
      throw_damaged(folder, name, "is not a regular file");
    require_size(folder, name, found->second.bytes, record.bytes);
  }
  return manifest;
}

void verify_checkpoint(Files& files, const std::string& folder) {
  const std::map<std::string, FileRecord> records = inspect_checkpoint(files, folder).files;
  Activity shown("verifying " + folder, "B");
  const int64_t total = total_bytes(records);
  int64_t verified = 0;
  for (const auto& [name, record] : records) {
    shown.progress(verified, total);
    verified_file(files, folder, name, record);
    verified += record.bytes;
  }
}

void verify_share(Files& files, const std::string& folder, int64_t rank, int64_t ranks) {
  const std::map<std::string, FileRecord> records = inspect_checkpoint(files, folder).files;
  const Activity shown("verifying " + folder);
  std::vector<std::function<void()>> work;
  for (const std::string& name : share_of_files(records, rank, ranks)) {
    work.push_back([&, name] { verified_file(files, folder, name, records.at(name)); });
  }
  parallel_invoke(files.threads(), work);
}

TrainState read_checkpoint(Files& files, const std::string& folder, const LoadOptions& options) {
  if (options.verify) options.verify(folder);
  Manifest manifest = inspect_checkpoint(files, folder);
  TrainState state = manifest.state;
  const Activity shown("verifying and reading " + folder);
  const FolderReader reader = options.verify ? FolderReader::of_verified(files, folder)
                                             : FolderReader(files, folder, manifest);
  if (is_sharded(manifest)) {
    read_shards(reader, manifest, options, state);
  } else {
    read_model(folder, manifest, reader, state);
    if (!options.without_optimizer) read_optimizers(reader, manifest, state);
    if (state.layout) from_stored(*state.layout, state);
  }
  state.layout.reset();
  read_sections(folder, by_name(reader.tensors(kStateFile)), state);
  reader.value(kRandomStatesFile, [&](const Value& value) { read_random_states(value, 0, state); });
  for (size_t rank = 1; manifest.files.contains(random_states_file(rank)); ++rank) {
    reader.value(random_states_file(rank),
                 [&](const Value& value) { read_random_states(value, rank, state); });
  }
  if (options.region_of || options.verify) take_regions(reader, options.region_of, state);
  return state;
}

TrainState read_accelerate_checkpoint(Files& files, const std::string& folder,
                                      const LoadOptions& options) {
  AccelerateFolder content = read_accelerate_folder(files, folder, options.without);
  TrainState state;
  AccelerateNotes notes;
  remove_wrapper(content.model, notes);
  for (auto& model : content.further_models) remove_wrapper(model, notes);
  add_models(content, options, state);
  if (!content.schedulers.empty()) {
    guarded(folder, kSchedulerFile, [&] { read_schedulers(content.schedulers, state, notes); });
  }
  read_accelerate_optimizer(folder, content, options, state, notes);
  if (content.scaler) {
    guarded(folder, kScalerFile, [&] { state.scaler = read_scaler(*content.scaler); });
    // A disabled scaler has an empty state.
    if (state.scaler->numbers.empty()) state.scaler.reset();
  }
  if (content.random_states.contains(0)) {
    guarded(folder, kRandomStatesFile,
            [&] { read_random_states(content.random_states.at(0), 0, state); });
  }
  for (int rank = 1; content.random_states.contains(rank); ++rank) {
    const auto number = static_cast<size_t>(rank);
    guarded(folder, random_states_file(number),
            [&] { read_random_states(content.random_states.at(rank), number, state); });
  }
  note_files(files, folder, options, content, notes);
  state.accelerate = std::move(notes);
  return state;
}

}  // namespace accel
