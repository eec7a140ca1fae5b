#include "checkpoint/convert.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <unistd.h>

#include "checkpoint/accelerate_folder.h"
#include "checkpoint/dcp_tree.h"
#include "checkpoint/folder_reader.h"
#include "checkpoint/folder_writer.h"
#include "checkpoint/layout.h"
#include "checkpoint/optimizer_state_dict.h"
#include "checkpoint/reader.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "formats/tensors/dcp.h"
#include "formats/tensors/weight_shards.h"

namespace accel {
namespace {

/// The content of the source.
struct ConvertSource {
  AccelerateFolder content;
  std::vector<std::string> parameters;        ///< names by id; empty: unknown
  std::map<std::string, SharedBytes> custom;  ///< files that are copied
};

/// Restores all names of tied tensors, in the order of the manifest.
void restore_tied_names(const std::string& folder, const Manifest& manifest,
                        AccelerateFolder& content) {
  const std::vector<std::string> further = further_models(manifest.model);
  content.further_models.resize(further.size());
  std::map<std::string, Array> by_name;
  for (const NamedArray& tensor : content.model) by_name.emplace(tensor.name, tensor.array);
  for (size_t i = 0; i < further.size(); ++i) {
    for (const NamedArray& tensor : std::exchange(content.further_models[i], {})) {
      by_name.emplace(further[i] + "/" + tensor.name, tensor.array);
    }
  }
  content.model.clear();
  for (const std::string& name : manifest.model) {
    const auto tied = manifest.tied.find(name);
    const auto found = by_name.find(tied == manifest.tied.end() ? name : tied->second);
    const auto [model, own_name] = split_name(name);
    const auto number = std::find(further.begin(), further.end(), model) - further.begin();
    if (found == by_name.end()) {
      throw_damaged(folder, numbered_file(kModelFile, model.empty() ? 0 : number + 1),
                    text("has no tensor '{}'", own_name));
    }
    (model.empty() ? content.model : content.further_models[number])
        .push_back({own_name, found->second});
  }
}

/// The files of register_for_checkpointing().
std::map<std::string, SharedBytes> custom_files(Files& files, const std::string& folder) {
  std::map<std::string, SharedBytes> out;
  for (const auto& [name, entry] : entries_of(files, folder)) {
    if (!name.starts_with(kCustomFilePrefix) || !name.ends_with(".pkl")) continue;
    out.emplace(name, FolderReader(files, folder).bytes(name));
  }
  return out;
}

ConvertSource read_source(Files& files, const std::string& folder) {
  ConvertSource out;
  out.custom = custom_files(files, folder);
  if (!has_manifest(files, folder)) {
    out.content = read_accelerate_folder(files, folder);
    return out;
  }
  verify_checkpoint(files, folder);
  const Manifest manifest = inspect_checkpoint(files, folder);
  out.content = read_accelerate_folder(files, folder);
  out.parameters = manifest.optimizer;
  restore_tied_names(folder, manifest, out.content);
  return out;
}

/// Each storage once, under its first name, as safetensors requires.
std::vector<NamedArray> untied(const std::vector<NamedArray>& tensors) {
  std::set<std::pair<const std::byte*, Shape>> seen;
  std::vector<NamedArray> out;
  for (const NamedArray& tensor : tensors) {
    const bool empty = tensor.array.count() == 0;
    if (empty || seen.emplace(tensor.array.data(), tensor.array.shape()).second) {
      out.push_back(tensor);
    }
  }
  return out;
}

void write_dcp_folder(Files& files, const std::string& folder, const DcpState& state) {
  files.make_dirs(folder);
  FolderWriter writer(files, folder);
  std::string metadata;
  writer.add(kDcpDataFile, [&](const ByteSink& data) {
    write_dcp(state, data, [&](ByteSpan bytes) { metadata += as_text(bytes); });
  });
  writer.add_text(kDcpMetadataFile, metadata);
  files.sync_dir(folder);
}

/// The files of save_state() other than models and optimizers.
void write_other_states(FolderWriter& writer, const ConvertSource& source) {
  const AccelerateFolder& content = source.content;
  for (size_t i = 0; i < content.schedulers.size(); ++i) {
    writer.add_value(numbered_file(kSchedulerFile, i), content.schedulers[i]);
  }
  if (content.scaler) writer.add_value(kScalerFile, *content.scaler);
  for (const auto& [rank, states] : content.random_states) {
    writer.add_value(random_states_file(static_cast<size_t>(rank)), states);
  }
  for (const auto& [name, bytes] : source.custom) {
    writer.add(name, [&file = bytes](const ByteSink& sink) { sink(file.view); });
  }
}

Value::Dict dict_of(const std::vector<NamedArray>& tensors) {
  Value::Dict out;
  for (const auto& [name, array] : tensors) out.items.emplace_back(name, array);
  return out;
}

/// All models, the recipe's first.
std::vector<const std::vector<NamedArray>*> models_of(const ConvertSource& source) {
  std::vector<const std::vector<NamedArray>*> out = {&source.content.model};
  for (const auto& model : source.content.further_models) out.push_back(&model);
  return out;
}

void write_distributed(Files& files, const std::string& folder, const ConvertSource& source,
                       std::vector<std::string>& notes) {
  const auto models = models_of(source);
  for (size_t i = 0; i < models.size(); ++i) {
    write_dcp_folder(files, folder + "/" + kShardedModelPrefix + std::to_string(i),
                     dcp_of("model", dict_of(untied(*models[i]))));
  }
  std::span<const std::string> names = source.parameters;
  for (size_t i = 0; i < source.content.optimizers.size(); ++i) {
    if (const auto named = with_param_names(source.content.optimizers[i], names)) {
      write_dcp_folder(files, folder + "/" + kShardedOptimizerPrefix + std::to_string(i),
                       dcp_of("optimizer", *named));
    } else {
      notes.push_back(text("'{}' is not converted: it has parameter ids without names",
                           numbered_file(kOptimizerFile, i)));
    }
  }
  FolderWriter writer(files, folder);
  write_other_states(writer, source);
}

void write_target(Files& files, const std::string& folder, const ConvertSource& source,
                  const ConvertOptions& options, std::vector<std::string>& notes) {
  FolderWriter writer(files, folder);
  const auto models = models_of(source);
  switch (options.to) {
    case WeightLayout::kSafetensors:
      write_weights(writer, untied(*models[0]), WeightFormat::kSafetensors,
                    options.max_shard_bytes);
      for (size_t i = 1; i < models.size(); ++i) {
        writer.add_tensors(numbered_file(kModelFile, i), untied(*models[i]));
      }
      break;
    case WeightLayout::kTorch:
      write_weights(writer, *models[0], WeightFormat::kTorch, options.max_shard_bytes);
      for (size_t i = 1; i < models.size(); ++i) {
        writer.add_value(numbered_file(kPickledModelFile, i), dict_of(*models[i]));
      }
      break;
    case WeightLayout::kAccelerate:
      for (size_t i = 0; i < models.size(); ++i) {
        writer.add_tensors(numbered_file(kModelFile, i), untied(*models[i]));
      }
      for (size_t i = 0; i < source.content.optimizers.size(); ++i) {
        writer.add_value(numbered_file(kOptimizerFile, i),
                         with_param_ids(source.content.optimizers[i]));
      }
      write_other_states(writer, source);
      break;
    case WeightLayout::kDistributed:
      write_distributed(files, folder, source, notes);
      break;
  }
  files.sync_dir(folder);
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
}

/// An unused folder name beside `target`, unique per process.
std::string unused_name(Files& files, const std::string& target) {
  const std::string stem = target + ".new-" + std::to_string(::getpid());
  std::set<std::string> taken;
  for (const DirEntry& entry : files.list(parent_of(target))) taken.insert(entry.name);
  for (int i = 0;; ++i) {
    std::string name = stem + (i == 0 ? "" : "-" + std::to_string(i));
    if (!taken.contains(name.substr(name.rfind('/') + 1))) return name;
  }
}

}  // namespace

void write_weights(FolderWriter& writer, const std::vector<NamedArray>& tensors,
                   WeightFormat format, uint64_t max_shard_bytes) {
  std::vector<WeightSize> sizes;
  for (const auto& [name, array] : tensors) sizes.push_back({name, array.bytes()});
  const std::vector<WeightShard> shards = plan_weight_shards(sizes, max_shard_bytes, format);
  for (const WeightShard& shard : shards) {
    std::vector<NamedArray> some;
    Value::Dict dict;
    for (const size_t i : shard.weights) {
      some.push_back(tensors[i]);
      dict.items.emplace_back(tensors[i].name, tensors[i].array);
    }
    if (format == WeightFormat::kSafetensors) {
      writer.add_tensors(shard.file, some);
    } else {
      writer.add_value(shard.file, std::move(dict));
    }
  }
  if (shards.size() > 1) {
    writer.add_text(weight_index_name(format), weight_index_text(sizes, shards));
  }
}

void publish_folder(Files& files, const std::string& target,
                    const std::function<void(const std::string& staged)>& write) {
  std::string staged;
  try {
    if (!files.list(target).empty()) throw FileError("write", target, EEXIST);
    staged = unused_name(files, target);
    files.make_dirs(staged);
    write(staged);
    files.rename(staged, target);
    files.sync_dir(parent_of(target));
  } catch (const FileError& error) {
    if (!staged.empty()) remove_quietly(files, staged);
    throw IoError(text("cannot write '{}': {}", target, error.what()),
                  error.code().value() == EEXIST ? "choose a new folder" : "");
  } catch (...) {
    if (!staged.empty()) remove_quietly(files, staged);
    throw;
  }
}

std::vector<std::string> convert_checkpoint(Files& files, const std::string& source,
                                            const std::string& target,
                                            const ConvertOptions& options) {
  std::vector<std::string> notes;
  const ConvertSource content = read_source(files, source);
  try {
    publish_folder(files, target, [&](const std::string& staged) {
      write_target(files, staged, content, options, notes);
    });
  } catch (const FormatError& error) {
    throw CheckpointError(text("cannot convert '{}': {}", source, error.what()));
  }
  return notes;
}

}  // namespace accel
