#include "checkpoint/shard_reader.h"

#include <algorithm>
#include <map>
#include <utility>

#include "checkpoint/dcp_tree.h"
#include "checkpoint/file_names.h"
#include "checkpoint/optimizer_state_dict.h"
#include "checkpoint/tensors.h"
#include "formats/tensors/dcp.h"

namespace accel {
namespace {

/// The name of the parameter that an entry belongs to.
using ParameterOf = std::function<std::string(const DcpPath& path)>;

/// An entry of the shards, and the whole shapes of those that are read in part.
struct ShardFolder {
  DcpState state;
  std::map<std::string, Shape> whole;  ///< by flat name
};

std::string flat_name(const DcpPath& path) {
  std::string out;
  for (const Value& key : path) {
    const auto* name = key.as<std::string>();
    if (name) out += (out.empty() ? "" : ".") + *name;
  }
  return out;
}

ShardFolder read_folder(const FolderReader& reader, const std::string& folder,
                        const RegionOf& region_of, const ParameterOf& parameter_of) {
  ShardFolder out;
  DcpReadOptions options;
  options.before_access = [&](const std::string& file, ByteSpan bytes) {
    access_or_fail(reader.folder(), folder + "/" + file, bytes);
  };
  options.select = [&](const DcpPath& path, const Shape& shape) -> std::optional<DcpChunk> {
    const auto region = region_of ? region_of(parameter_of(path), shape) : std::nullopt;
    if (!region) return std::nullopt;
    out.whole[flat_name(path)] = shape;
    return DcpChunk{region->offsets, region->sizes};
  };
  out.state = guarded(reader.folder(), folder + "/" + kDcpMetadataFile, [&] {
    return read_dcp([&](const std::string& name) { return reader.bytes(folder + "/" + name); },
                    options);
  });
  return out;
}

/// The `index`-th key of a path; "" when there is none.
std::string key_at(const DcpPath& path, size_t index) {
  const auto* key = index < path.size() ? path[index].as<std::string>() : nullptr;
  return key ? *key : "";
}

Shape whole_shape(const ShardFolder& from, const std::string& name) {
  const auto found = from.whole.find(name);
  return found == from.whole.end() ? Shape() : found->second;
}

/// Narrows a whole tensor to the region to read; returns whether there is one.
bool take_region(const FolderReader& reader, const RegionOf& region_of, const std::string& name,
                 at::Tensor& tensor) {
  const Shape whole = tensor.sizes().vec();
  const auto region = region_of ? region_of(name, whole) : std::nullopt;
  if (region) {
    for (size_t dim = 0; dim < whole.size(); ++dim) {
      tensor = tensor.narrow(static_cast<int64_t>(dim), region->offsets[dim], region->sizes[dim]);
    }
  }
  if (tensor.numel() == 0) return region.has_value();
  int64_t elements = 1;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    elements += (tensor.size(dim) - 1) * tensor.stride(dim);
  }
  access_or_fail(reader.folder(), name,
                 {static_cast<const std::byte*>(tensor.const_data_ptr()),
                  static_cast<size_t>(elements) * tensor.element_size()});
  return region.has_value();
}

}  // namespace

bool is_sharded(const Manifest& manifest) {
  return std::any_of(manifest.files.begin(), manifest.files.end(),
                     [](const auto& file) { return file.first.find('/') != file.first.npos; });
}

void read_model_shards(const FolderReader& reader, const Manifest& manifest,
                       const RegionOf& region_of, TrainState& state) {
  std::vector<std::string> models = further_models(manifest.model);
  models.insert(models.begin(), "");
  std::map<std::string, Parameter> found;
  for (size_t i = 0; i < models.size(); ++i) {
    const std::string folder = kShardedModelPrefix + std::to_string(i);
    if (!manifest.files.contains(folder + "/" + kDcpMetadataFile)) continue;
    const std::string prefix = models[i].empty() ? "" : models[i] + "/";
    const ShardFolder shards = read_folder(
        reader, folder, region_of, [&](const DcpPath& path) { return prefix + key_at(path, 1); });
    for (const auto& [name, array] : shards.state.tensors) {
      const auto path = shards.state.paths.find(name);
      const std::string own =
          prefix + (path == shards.state.paths.end() ? name : key_at(path->second, 1));
      found[own] = {own, tensor_of(array), whole_shape(shards, name)};
    }
  }
  for (const std::string& name : manifest.model) {
    const auto tied = manifest.tied.find(name);
    const auto tensor = found.find(tied == manifest.tied.end() ? name : tied->second);
    if (tensor == found.end()) {
      throw_damaged(reader.folder(), std::string(kShardedModelPrefix) + "0",
                    text("has no tensor '{}'", name));
    }
    state.model.push_back({name, tensor->second.local, tensor->second.global});
  }
}

void read_optimizer_shards(const FolderReader& reader, const Manifest& manifest,
                           const RegionOf& region_of, TrainState& state) {
  std::vector<Value> values;
  std::map<std::string, Shape> whole;  // by flat name
  const auto folder = [](size_t i) { return kShardedOptimizerPrefix + std::to_string(i); };
  for (size_t i = 0; manifest.files.contains(folder(i) + "/" + kDcpMetadataFile); ++i) {
    ShardFolder shards = read_folder(reader, folder(i), region_of,
                                     [](const DcpPath& path) { return key_at(path, 2); });
    whole.merge(shards.whole);
    guarded(reader.folder(), folder(i) + "/" + kDcpMetadataFile,
            [&] { values.push_back(optimizer_of_dcp(shards.state)); });
  }
  if (values.empty()) throw_damaged(reader.folder(), folder(0), "is missing");
  guarded(reader.folder(), folder(0) + "/" + kDcpMetadataFile,
          [&] { read_optimizer(join_optimizers(std::move(values)), manifest.optimizer, state); });
  for (OptimizerState::Group& group : state.optimizer.groups) {
    for (OptimizerState::ParameterState& parameter : group.parameters) {
      for (Parameter& slot : parameter.slots) {
        const auto found = whole.find("optimizer.state." + parameter.name + "." + slot.name);
        if (found != whole.end()) slot.global = found->second;
      }
    }
  }
}

void read_section_shards(const FolderReader& reader, const Manifest& manifest,
                         const RegionOf& region_of, TrainState& state) {
  if (!manifest.files.contains(std::string(kShardedStateFolder) + "/" + kDcpMetadataFile)) return;
  std::map<std::string, std::pair<std::string, at::Tensor*>> wanted;  // by entry
  for (auto& [section, dict] : state.sections) {
    for (auto& [name, tensor] : dict.tensors) {
      wanted["parts/" + section + "/" + name] = {name, &tensor};
    }
  }
  const ShardFolder shards =
      read_folder(reader, kShardedStateFolder, region_of, [&](const DcpPath& path) {
        const auto found = wanted.find(key_at(path, 0));
        return found == wanted.end() ? "" : found->second.first;
      });
  for (const auto& [name, array] : shards.state.tensors) {
    const auto found = wanted.find(name);
    if (found != wanted.end()) *found->second.second = tensor_of(array);
  }
}

void take_regions(const FolderReader& reader, const RegionOf& region_of, TrainState& state) {
  for (Parameter& item : state.model) {
    if (!item.global.empty()) continue;  // read in part
    Shape whole = item.local.sizes().vec();
    if (take_region(reader, region_of, item.name, item.local)) item.global = std::move(whole);
  }
  for (OptimizerState::Group& group : state.optimizer.groups) {
    for (OptimizerState::ParameterState& parameter : group.parameters) {
      for (Parameter& slot : parameter.slots) {
        if (!slot.global.empty()) continue;
        Shape whole = slot.local.sizes().vec();
        if (take_region(reader, region_of, parameter.name, slot.local)) {
          slot.global = std::move(whole);
        }
      }
    }
  }
  for (auto& [section, dict] : state.sections) {
    const bool of_parameters = section.starts_with("callbacks/");
    for (auto& [name, tensor] : dict.tensors) {
      take_region(reader, of_parameters ? region_of : RegionOf(), name, tensor);
    }
  }
}

}  // namespace accel
