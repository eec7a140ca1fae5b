#include "checkpoint/shard_files.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <span>
#include <stdexcept>

#include "checkpoint/dcp_tree.h"
#include "checkpoint/file_names.h"
#include "checkpoint/layout.h"
#include "checkpoint/optimizer_state_dict.h"
#include "checkpoint/tensors.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr auto kStateKey = "optimizer.state";

const ParameterShard* shard_named(const TrainState& state, const std::string& parameter) {
  const auto found = state.shards->parameters.find(parameter);
  return found == state.shards->parameters.end() ? nullptr : &found->second;
}

/// The parameter's shard if `tensor` has its shape.
const ParameterShard* shard_of(const TrainState& state, const std::string& parameter,
                               const at::Tensor& tensor) {
  const ParameterShard* shard = shard_named(state, parameter);
  const bool fits = shard && tensor.sizes() == at::IntArrayRef(shard->sizes);
  return fits ? shard : nullptr;
}

std::string slot_key(const std::string& parameter, const Parameter& slot) {
  return parameter + "." + slot.name;
}

/// The shard of a tensor of the optimizer's state; null where every rank holds all of it.
const ParameterShard* slot_shard(const TrainState& state, const std::string& parameter,
                                 const Parameter& slot) {
  if (slot.global.empty()) return shard_of(state, parameter, slot.local);
  if (slot.is_replicated()) return nullptr;
  const ParameterShard* shard = shard_named(state, parameter);
  if (shard && shard->whole == slot.global) return shard;
  return &state.shards->slots.at(slot_key(parameter, slot));
}

bool writes_slot(const TrainState& state, const std::string& parameter, const Parameter& slot) {
  const ParameterShard* shard = slot_shard(state, parameter, slot);
  return shard ? shard->is_written : writes_whole(*state.shards, slot_key(parameter, slot));
}

/// Appends a shard for each region of `tensor`.
void add_shards(const TrainState& state, const DcpPath& path, const at::Tensor& tensor,
                const ParameterShard* shard, std::vector<DcpShard>& out) {
  std::string name;
  for (const Value& key : path) name += (name.empty() ? "" : ".") + *key.as<std::string>();
  const Shape sizes = tensor.sizes().vec();
  const std::vector<TensorRegion> whole = {{Shape(sizes.size(), 0), sizes}};
  const std::vector<TensorRegion>& regions = shard ? shard->own : whole;
  int64_t row = 0;
  for (const TensorRegion& region : regions) {
    const auto array = [tensor, name, row, swapper = state.shards->swapper,
                        several = regions.size() > 1,
                        rows = region.sizes.empty() ? 0 : region.sizes.front()] {
      const at::Tensor held = swapper ? swapper->read(tensor) : tensor;
      return array_of(several ? held.narrow(0, row, rows) : held, name);
    };
    if (!region.sizes.empty()) row += region.sizes.front();
    out.push_back({name, path, array, shard ? shard->whole : sizes, region.offsets});
  }
}

/// The options of an optimizer, without the state of parameters.
DcpState optimizer_options(TrainState optimizer) {
  bool has_state = false;
  for (OptimizerState::Group& group : optimizer.optimizer.groups) {
    for (OptimizerState::ParameterState& parameter : group.parameters) {
      has_state = has_state || !parameter.slots.empty();
      parameter.slots.clear();
    }
  }
  const std::vector<std::string> names = optimizer_parameters(optimizer.optimizer);
  std::span<const std::string> left = names;
  DcpState out = dcp_of("optimizer", *with_param_names(optimizer_value(optimizer), left));
  // An empty dict is a leaf.
  if (has_state)
    std::erase_if(out.objects, [](const auto& item) { return item.first == kStateKey; });
  if (has_state) out.paths.erase(kStateKey);
  return out;
}

DcpPart optimizer_part(const TrainState& state, const TrainState& optimizer) {
  DcpPart out;
  for (const OptimizerState::Group& group : optimizer.optimizer.groups) {
    for (const auto& [name, slots] : group.parameters) {
      for (const Parameter& slot : slots) {
        if (!slot.local.defined()) continue;
        add_shards(state, {"optimizer", "state", name, slot.name}, slot.local,
                   slot_shard(state, name, slot), out.shards);
      }
    }
  }
  if (state.shards->rank == 0) out.rest = optimizer_options(optimizer);
  return out;
}

std::vector<std::string> model_names(const TrainState& state) {
  std::vector<std::string> names;
  for (const Parameter& item : state.model) names.push_back(item.name);
  return names;
}

/// The tensors that this rank writes, by folder.
std::map<std::string, DcpPart> parts_of(const TrainState& state) {
  std::map<std::string, DcpPart> out;
  const std::vector<std::string> further = further_models(model_names(state));
  for (const Parameter& item : state.model) {
    if (!item.local.defined()) continue;
    const auto [model, name] = split_name(item.name);
    const auto number =
        model.empty() ? 0 : std::find(further.begin(), further.end(), model) - further.begin() + 1;
    add_shards(state, {"model", name}, item.local, shard_of(state, item.name, item.local),
               out[kShardedModelPrefix + std::to_string(number)].shards);
  }
  const std::vector<TrainState> optimizers = split_optimizers(state);
  for (size_t i = 0; i < optimizers.size(); ++i) {
    out[kShardedOptimizerPrefix + std::to_string(i)] = optimizer_part(state, optimizers[i]);
  }
  for (const auto& [section, dict] : state.sections) {
    for (const auto& [name, tensor] : dict.tensors) {
      if (!tensor.defined() || !is_sharded_section(state, section, name, tensor)) continue;
      add_shards(state, {"parts/" + section + "/" + name}, tensor, shard_named(state, name),
                 out[kShardedStateFolder].shards);
    }
  }
  return out;
}

/// Reads the fields of to_bytes().
class Fields {
 public:
  explicit Fields(std::string_view bytes) : left_(bytes) {}

  bool empty() const { return left_.empty(); }
  uint64_t number() {
    uint64_t out = 0;
    const std::string_view digits = take(left_.find('\n'));
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), out);
    if (error != std::errc() || end != digits.end()) throw FormatError("it has no number");
    take(1);
    return out;
  }
  std::string text() { return std::string(take(number())); }

 private:
  std::string_view take(size_t count) {
    if (count > left_.size()) throw FormatError("it is truncated");
    const std::string_view out = left_.substr(0, count);
    left_.remove_prefix(count);
    return out;
  }

  std::string_view left_;
};

std::string field(uint64_t number) {
  return std::to_string(number) + "\n";
}

std::string field(const std::string& text) {
  return field(text.size()) + text;
}

}  // namespace

std::string to_bytes(const ShardRecord& record) {
  std::string out = field(record.files.size());
  for (const auto& [name, file] : record.files) {
    out += field(name) + field(static_cast<uint64_t>(file.bytes)) + field(file.checksum);
  }
  for (const auto& [folder, metadata] : record.metadata) {
    out += field(folder) + field(dcp_metadata_text(metadata));
  }
  return out;
}

ShardRecord shard_record_of(std::string_view bytes) {
  Fields fields(bytes);
  ShardRecord out;
  for (uint64_t count = fields.number(); count > 0; --count) {
    FileRecord& file = out.files[fields.text()];
    file.bytes = static_cast<int64_t>(fields.number());
    file.checksum = fields.number();
  }
  while (!fields.empty()) {
    const std::string folder = fields.text(), metadata = fields.text();
    out.metadata[folder] = read_dcp_metadata(as_bytes(metadata));
  }
  return out;
}

bool writes_whole(const ShardLayout& layout, const std::string& name) {
  return checksum_of(as_bytes(name)) % static_cast<uint64_t>(layout.ranks) ==
         static_cast<uint64_t>(layout.rank);
}

void keep_written(TrainState& state) {
  const bool main = state.shards->rank == 0;
  for (Parameter& item : state.model) {
    const ParameterShard* shard = shard_named(state, item.name);
    if (!(shard ? shard->is_written : main)) item.local = at::Tensor();
  }
  for (OptimizerState::Group& group : state.optimizer.groups) {
    for (OptimizerState::ParameterState& parameter : group.parameters) {
      for (Parameter& slot : parameter.slots) {
        if (!writes_slot(state, parameter.name, slot)) slot.local = at::Tensor();
      }
    }
  }
  for (auto& [section, dict] : state.sections) {
    for (auto& [name, tensor] : dict.tensors) {
      const bool sharded = is_sharded_section(state, section, name, tensor);
      const ParameterShard* shard = sharded ? shard_named(state, name) : nullptr;
      if (!(shard ? shard->is_written : main)) tensor = at::Tensor();
    }
  }
}

bool is_sharded_section(const TrainState& state, const std::string& section,
                        const std::string& name, const at::Tensor& tensor) {
  if (!state.shards || !section.starts_with("callbacks/") || !tensor.defined()) return false;
  const ParameterShard* shard = shard_of(state, name, tensor);
  return shard && shard->sharded;
}

std::vector<std::string> shard_folders(const TrainState& state) {
  std::vector<std::string> out;
  const size_t models = further_models(model_names(state)).size() + 1;
  for (size_t i = 0; i < models; ++i) out.push_back(kShardedModelPrefix + std::to_string(i));
  const size_t optimizers = split_optimizers(state).size();
  for (size_t i = 0; i < optimizers; ++i) {
    out.push_back(kShardedOptimizerPrefix + std::to_string(i));
  }
  for (const auto& [section, dict] : state.sections) {
    if (!section.starts_with("callbacks/")) continue;
    const bool any = std::any_of(dict.tensors.begin(), dict.tensors.end(), [&](const auto& item) {
      const ParameterShard* shard = shard_named(state, item.first);
      return shard && shard->sharded;
    });
    if (!any) continue;
    out.emplace_back(kShardedStateFolder);
    break;
  }
  return out;
}

ShardRecord write_shard_files(Files& files, const std::string& folder, const TrainState& state) {
  ShardRecord out;
  FolderWriter writer(files, folder);
  for (const auto& [name, part] : parts_of(state)) {
    if (part.empty()) continue;
    const std::string file = dcp_data_file(state.shards->rank);
    writer.add(name + "/" + file, [&, &name = name, &part = part](const ByteSink& sink) {
      out.metadata[name] = write_dcp_part(part, file, sink);
    });
    files.sync_dir(folder + "/" + name);
  }
  out.files = writer.records();
  return out;
}

void write_shard_metadata(Files& files, FolderWriter& writer, const std::string& folder,
                          std::vector<ShardRecord>& ranks) {
  std::map<std::string, std::vector<DcpMetadata>> by_folder;
  for (ShardRecord& rank : ranks) {
    for (auto& [name, metadata] : rank.metadata) by_folder[name].push_back(std::move(metadata));
  }
  for (auto& [name, parts] : by_folder) {
    writer.add_text(name + "/" + kDcpMetadataFile,
                    dcp_metadata_text(merge_dcp_metadata(std::move(parts))));
    files.sync_dir(folder + "/" + name);
  }
}

}  // namespace accel
