#include "checkpoint/deepspeed_folder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "checkpoint/folder_reader.h"
#include "checkpoint/tensors.h"
#include "checkpoint/zero_partitions.h"
#include "core/base/text.h"
#include "formats/tensors/torch_file.h"
#include "formats/tensors/weight_shards.h"
#include "formats/untrusted.h"

namespace accel {
namespace {

constexpr auto kLatestFile = "latest";
constexpr auto kConverter = "zero_to_fp32.py";  // which DeepSpeed writes beside partitions
const std::string kEngineFolder = "pytorch_model";
constexpr std::string_view kModelStates = "mp_rank_00_model_states.pt";
constexpr std::string_view kOptimStates = "_mp_rank_00_optim_states.pt";
constexpr auto kConvertHint =
    "convert its weights in Python by DeepSpeed's zero_to_fp32.py or ds_to_universal.py";

/// Objects in DeepSpeed's files, which are kept as data and not used.
bool is_deepspeed_class(const Value::Global& global) {
  constexpr std::array kNames = {"deepspeed.runtime.fp16.loss_scaler.LossScaler",
                                 "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler",
                                 "deepspeed.runtime.zero.config.ZeroStageEnum",
                                 "deepspeed.utils.tensor_fragment.fragment_address"};
  return std::find(kNames.begin(), kNames.end(), full_name(global)) != kNames.end();
}

/// The rank in "[bf16_]zero_pp_rank_<rank><suffix>".
std::optional<size_t> rank_of(std::string_view name, std::string_view suffix) {
  constexpr std::string_view kBf16 = "bf16_", kZero = "zero_pp_rank_";
  if (name.starts_with(kBf16)) name.remove_prefix(kBf16.size());
  if (!name.starts_with(kZero) || !name.ends_with(suffix)) return std::nullopt;
  name.remove_prefix(kZero.size());
  name.remove_suffix(suffix.size());
  size_t rank = 0;
  const auto [end, error] = std::from_chars(name.begin(), name.end(), rank);
  if (error != std::errc() || end != name.end()) return std::nullopt;
  return rank;
}

/// DeepSpeed's files in a folder.
struct ZeroFiles {
  std::string model;                     ///< of stage 0 to 2; "" at stage 3
  std::map<size_t, std::string> models;  ///< by rank, of stage 3
  std::map<size_t, std::string> optims;  ///< by rank, of stage 1 to 3

  bool empty() const { return model.empty() && models.empty() && optims.empty(); }
};

[[noreturn]] void refuse(const std::string& folder, const std::string& what) {
  throw CheckpointError(text("'{}' is a checkpoint of DeepSpeed {}", folder, what), kConvertHint);
}

void check_parallelism(const std::string& folder, const std::string& file) {
  const auto has = [&](const char* part) { return file.find(part) != file.npos; };
  if (!file.ends_with("_states.pt")) return;
  if (has("expp_rank_") || has("_expert_")) refuse(folder, "with experts, which are not read");
  if (file.starts_with("layer_")) refuse(folder, "with a pipeline, which is not read");
  if (has("mp_rank_01_")) refuse(folder, "with tensor parallelism, which is not read");
}

ZeroFiles zero_files(const std::string& folder, const std::map<std::string, DirEntry>& entries) {
  ZeroFiles out;
  for (const auto& [name, entry] : entries) {
    check_parallelism(folder, name);
    if (name == kModelStates) out.model = name;
    if (const auto rank = rank_of(name, std::string("_").append(kModelStates))) {
      out.models[*rank] = name;
    }
    if (const auto rank = rank_of(name, kOptimStates)) out.optims[*rank] = name;
  }
  return out;
}

/// Ranks 0, 1, ... have a file each.
void check_ranks(const std::string& folder, const std::map<size_t, std::string>& files,
                 size_t ranks, const char* what) {
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (files.contains(rank)) continue;
    throw CheckpointError(
        text("checkpoint '{}' is incomplete: it has no {} of rank {}", folder, what, rank),
        "copy the files of all ranks into one folder");
  }
}

[[noreturn]] void refuse_form(const char* key) {
  throw FormatError(text("'{}' has another form than DeepSpeed's", key));
}

/// A value of DeepSpeed's dicts. Throws FormatError without one.
const Value& entry(const Value& dict, const char* key) {
  const Value* found = dict.find(key);
  if (!found) throw FormatError(text("it has no '{}'", key));
  return *found;
}

/// An integer, as ZeroStageEnum or plain.
int64_t integer_in(const Value& value, const char* key) {
  if (const auto* number = value.as<int64_t>()) return *number;
  const auto* call = value.as<Value::Call>();
  const auto* number =
      call && call->arguments.size() == 1 ? call->arguments[0].as<int64_t>() : nullptr;
  if (!number) refuse_form(key);
  return *number;
}

int64_t partition_count(const Value& state) {
  const Value& count = entry(state, "partition_count");
  if (!count.as<Value::List>()) return integer_in(count, "partition_count");
  int64_t most = 1;
  for (const Value& item : items_of(&count, "partition_count")) {
    most = std::max(most, integer_in(item, "partition_count"));
  }
  return most;
}

Shape shape_in(const Value& value) {
  const auto* sizes = value.as<Value::Tuple>();
  if (!sizes) refuse_form("param_shapes");
  Shape out;
  for (const Value& size : sizes->items) out.push_back(integer_in(size, "param_shapes"));
  return out;
}

/// A number of elements; a negative one would lead outside of a tensor.
int64_t padding_in(const Value& value, const char* key) {
  const int64_t padding = integer_in(value, key);
  if (padding < 0 || padding > (int64_t{1} << 40)) refuse_form(key);
  return padding;
}

const std::string& name_in(const Value& key, const char* what) {
  const auto* name = key.as<std::string>();
  if (!name) refuse_form(what);
  return *name;
}

/// The trained parameters of a file of model states.
std::vector<ZeroGroup> groups_in(const Value& model) {
  std::vector<ZeroGroup> out;
  for (const Value& shapes : items_of(&entry(model, "param_shapes"), "param_shapes")) {
    ZeroGroup& group = out.emplace_back();
    for (const auto& [key, shape] : dict_in(&shapes, "param_shapes").items) {
      group.parameters.push_back({name_in(key, "param_shapes"), shape_in(shape), out.size() - 1});
    }
  }
  return out;
}

/// The elements between parameters, which newer versions align.
void read_padding(const Value& state, std::vector<ZeroGroup>& groups) {
  constexpr auto kKey = "param_alignment_paddings";
  const Value* list = state.find(kKey);
  if (!list || list->as<Value::None>()) return;
  const std::vector<Value>& by_group = items_of(list, kKey);
  if (by_group.size() != groups.size()) refuse_form(kKey);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const Value& item : items_of(&by_group[g], kKey)) {
      groups[g].padding.push_back(padding_in(item, kKey));
    }
    if (groups[g].padding.size() != groups[g].parameters.size()) refuse_form(kKey);
  }
}

using FlatTensors = std::vector<std::vector<const Array*>>;  // by rank, then by partition

/// Joins the pieces of a checkpoint's parameters.
class ZeroState {
 public:
  /// `optims` are the files of all ranks.
  ZeroState(const Value& model, const std::vector<Value>& optims) {
    for (const Value& optim : optims) states_.push_back(&entry(optim, "optimizer_state_dict"));
    stage_ = integer_in(entry(*states_[0], "zero_stage"), "zero_stage");
    if (stage_ < 1 || stage_ > 3) refuse_form("zero_stage");
    std::vector<ZeroGroup> groups = groups_in(model);
    const char* key = stage_ == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups";
    for (const Value* state : states_) {
      std::vector<const Array*>& own = masters_.emplace_back();
      std::vector<int64_t>& sizes = sizes_.emplace_back();
      for (const Value& item : items_of(&entry(*state, key), key)) {
        own.push_back(item.as<Array>());
        if (!own.back()) refuse_form(key);
        sizes.push_back(own.back()->count());
      }
      const bool fits =
          stage_ == 3 ? own.size() == masters_[0].size() : own.size() == groups.size();
      if (!fits) refuse_form(key);
    }
    if (stage_ != 3) read_padding(*states_[0], groups);
    for (size_t rank = 0; rank < states_.size(); ++rank) add_state_sizes(rank);
    num_groups_ = groups.size();
    parameters_ = stage_ == 3 ? place_each(std::move(groups), sizes_)
                              : place_groups(std::move(groups), sizes_);
  }

  std::vector<NamedArray> weights() const {
    std::vector<NamedArray> out;
    for (const ZeroParameter& parameter : parameters_) {
      out.push_back({parameter.name, join(parameter, masters_)});
    }
    return out;
  }

  /// Null for an elastic checkpoint, whose state has another form.
  std::optional<Value> optimizer() const {
    const Value* options = options_of(*states_[0]);
    if (!options->as<Value::Dict>()) return std::nullopt;
    std::vector<Value::Dict> groups;
    std::vector<Value> ids;  // of flat tensors
    for (const Value& group : items_of(&entry(*options, "param_groups"), "param_groups")) {
      Value::Dict& out = groups.emplace_back();
      for (const auto& [name, value] : dict_in(&group, "param_groups").items) {
        if (name_in(name, "param_groups") != "params") out.items.emplace_back(name, value);
      }
      for (const Value& id : items_of(group.find("params"), "params")) ids.push_back(id);
    }
    if (groups.size() != num_groups_ || ids.size() != sizes_[0].size()) {
      refuse_form("param_groups");
    }
    std::vector<Value::List> names(groups.size());
    for (const ZeroParameter& parameter : parameters_) {
      names[parameter.group].items.push_back(parameter.name);
    }
    Value::List list;
    for (size_t g = 0; g < groups.size(); ++g) {
      groups[g].items.emplace_back("params", std::move(names[g]));
      list.items.push_back(std::move(groups[g]));
    }
    Value::Dict out;
    out.items.emplace_back("state", slots(ids));
    out.items.emplace_back("param_groups", std::move(list));
    return Value(std::move(out));
  }

 private:
  /// The last partitions of master weights lack the padding that those of the state may have.
  void add_state_sizes(size_t rank) {
    constexpr auto kKey = "group_paddings";
    std::vector<int64_t>& sizes = state_sizes_.emplace_back(sizes_[rank]);
    const Value* paddings = states_[rank]->find(kKey);
    if (!paddings || !paddings->as<Value::List>()) return;
    const std::vector<Value>& items = items_of(paddings, kKey);
    for (size_t i = 0; i < std::min(items.size(), sizes.size()); ++i) {
      sizes[i] += padding_in(items[i], kKey);
    }
  }

  Array join(const ZeroParameter& parameter, const FlatTensors& flat) const {
    return join_pieces(parameter, [&](size_t rank, size_t partition) -> const Array& {
      return *flat[rank][partition];
    });
  }

  /// The state_dict of torch.optim inside that of ZeRO.
  const Value* options_of(const Value& state) const {
    return &entry(state, stage_ == 3 ? "optimizer_state_dict" : "base_optimizer_state");
  }

  /// The state of flat tensor `partition` of a rank; null before the first update.
  const Value* state_of(size_t rank, const Value& id) const {
    const Value::Dict& all = dict_in(options_of(*states_[rank])->find("state"), "state");
    const auto* wanted = id.as<int64_t>();
    if (!wanted) refuse_form("params");
    for (const auto& [key, value] : all.items) {
      const auto* own = key.as<int64_t>();
      if (own && *own == *wanted) return &value;
    }
    return nullptr;
  }

  /// By parameter, its part of each slot.
  Value::Dict slots(const std::vector<Value>& ids) const {
    std::vector<Value::Dict> by_parameter(parameters_.size());
    std::set<std::string> done;
    for (const Value& id : ids) {
      const Value* state = state_of(0, id);
      if (!state) continue;
      for (const auto& [key, value] : dict_in(state, "state").items) {
        const std::string& name = name_in(key, "state");
        if (done.insert(name).second) add_slot(name, ids, by_parameter);
      }
    }
    Value::Dict out;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (by_parameter[i].items.empty()) continue;
      out.items.emplace_back(parameters_[i].name, std::move(by_parameter[i]));
    }
    return out;
  }

  void add_slot(const std::string& name, const std::vector<Value>& ids,
                std::vector<Value::Dict>& by_parameter) const {
    FlatTensors flat(sizes_.size());
    std::vector<const Value*> same(ids.size(), nullptr);  // of all elements: "step"
    for (size_t rank = 0; rank < sizes_.size(); ++rank) {
      for (size_t i = 0; i < ids.size(); ++i) {
        const Value* state = state_of(rank, ids[i]);
        const Value* value = state ? state->find(name) : nullptr;
        const auto* array = value ? value->as<Array>() : nullptr;
        const bool is_flat = array && (array->shape() == Shape{sizes_[rank][i]} ||
                                       array->shape() == Shape{state_sizes_[rank][i]});
        if (!is_flat) same[i] = value;
        if (array && !is_flat && array->count() != 1) {
          throw FormatError(text("the optimizer's '{}' is not of single elements", name));
        }
        flat[rank].push_back(is_flat ? array : nullptr);
      }
    }
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const std::vector<ZeroPiece>& pieces = parameters_[i].pieces;
      const bool is_flat = std::all_of(pieces.begin(), pieces.end(), [&](const ZeroPiece& piece) {
        return flat[piece.rank][piece.partition] != nullptr;
      });
      if (is_flat) {
        by_parameter[i].items.emplace_back(name, join(parameters_[i], flat));
      } else if (const Value* value = same[pieces.front().partition]) {
        by_parameter[i].items.emplace_back(name, *value);
      }
    }
  }

  int64_t stage_ = 0;
  std::vector<const Value*> states_;  ///< by rank
  FlatTensors masters_;
  PartitionSizes sizes_;
  PartitionSizes state_sizes_;
  size_t num_groups_ = 0;
  std::vector<ZeroParameter> parameters_;
};

Value torch_file_of(const FolderReader& reader, const std::string& name) {
  return reader.torch_file(name, &is_deepspeed_class);
}

/// Buffers of the file; DeepSpeed's floating-point ones have the type of training.
void add_buffers(const Value& model, std::vector<NamedArray>& out) {
  const std::vector<NamedArray> module = state_dict_tensors(entry(model, "module"));
  for (const Value& item : items_of(&entry(model, "buffer_names"), "buffer_names")) {
    const std::string& name = name_in(item, "buffer_names");
    const auto found = std::find_if(module.begin(), module.end(),
                                    [&](const NamedArray& tensor) { return tensor.name == name; });
    if (found != module.end()) out.push_back(*found);
  }
}

/// Frozen parameters: whole in the file, or at stage 3 a part of each rank.
void add_frozen(const std::vector<Value>& models, std::vector<NamedArray>& out) {
  const Value* shapes = models[0].find("frozen_param_shapes");
  if (!shapes || shapes->as<Value::None>()) return;
  constexpr auto kKey = "frozen_param_fragments";
  for (const auto& [key, shape] : dict_in(shapes, "frozen_param_shapes").items) {
    const std::string& name = name_in(key, "frozen_param_shapes");
    ZeroGroup group = {{{name, shape_in(shape), 0}}, {}};
    std::vector<const Array*> parts;
    PartitionSizes sizes;
    for (const Value& model : models) {
      const Value* part = entry(model, kKey).find(name);
      parts.push_back(part ? part->as<Array>() : nullptr);
      if (!parts.back()) throw FormatError(text("'{}' lacks '{}'", kKey, name));
      sizes.push_back({parts.back()->count()});
    }
    const std::vector<ZeroParameter> placed = place_each({std::move(group)}, sizes);
    out.push_back({name, join_pieces(placed[0], [&](size_t rank, size_t) -> const Array& {
                     return *parts[rank];
                   })});
  }
}

void add_shared(const Value& model, std::vector<NamedArray>& out) {
  const Value* shared = model.find("shared_params");
  if (!shared || shared->as<Value::None>()) return;
  for (const auto& [key, first] : dict_in(shared, "shared_params").items) {
    const std::string &name = name_in(key, "shared_params"),
                      &source = name_in(first, "shared_params");
    const auto found = std::find_if(
        out.begin(), out.end(), [&](const NamedArray& tensor) { return tensor.name == source; });
    if (found == out.end()) continue;
    out.push_back({name, Array(found->array)});
  }
}

/// Other tensors of a file that has all of them whole: frozen parameters at stage 1, which are
/// nowhere else.
void add_rest(const Value& model, std::vector<NamedArray>& out) {
  std::set<std::string> names;
  for (const NamedArray& tensor : out) names.insert(tensor.name);
  for (NamedArray& tensor : state_dict_tensors(entry(model, "module"))) {
    if (!names.contains(tensor.name)) out.push_back(std::move(tensor));
  }
}

/// Stage 0: every tensor is in the file of model states.
void read_unsharded(const Value& model, DeepSpeedState& out) {
  out.model = state_dict_tensors(entry(model, "module"));
  const Value* optimizer = model.find("optimizer");
  // Of 16-bit training it has master weights too, in a form of each version's own.
  if (optimizer && optimizer->find("param_groups")) out.optimizer = *optimizer;
}

void read_sharded(const std::string& folder, const FolderReader& reader, const ZeroFiles& files,
                  DeepSpeedState& out) {
  std::vector<Value> optims;
  check_ranks(folder, files.optims, 1, "optimizer states");
  optims.push_back(torch_file_of(reader, files.optims.at(0)));
  const auto ranks = guarded(folder, files.optims.at(0), [&] {
    return static_cast<size_t>(partition_count(entry(optims[0], "optimizer_state_dict")));
  });
  const size_t most = std::max(ranks, files.optims.rbegin()->first + 1);
  check_ranks(folder, files.optims, most, "optimizer states");
  for (size_t rank = 1; rank < most; ++rank) {
    optims.push_back(torch_file_of(reader, files.optims.at(rank)));
  }
  std::vector<Value> models;
  if (files.model.empty()) check_ranks(folder, files.models, most, "model states");
  for (size_t rank = 0; rank < (files.model.empty() ? most : 1); ++rank) {
    const std::string& name = files.model.empty() ? files.models.at(rank) : files.model;
    models.push_back(torch_file_of(reader, name));
  }
  guarded(folder, files.optims.at(0), [&] {
    const ZeroState state(models[0], optims);
    out.model = state.weights();
    out.optimizer = state.optimizer();
    add_frozen(models, out.model);
    add_buffers(models[0], out.model);
    add_shared(models[0], out.model);
    if (!files.model.empty()) add_rest(models[0], out.model);
  });
  const Value* scheduler = models[0].find("lr_scheduler");
  if (scheduler && scheduler->as<Value::Dict>()) out.scheduler = *scheduler;
}

/// The folder of engine `number` inside `folder`; "" for `folder` itself.
std::string engine_folder(Files& files, const std::string& folder,
                          const std::map<std::string, DirEntry>& entries, size_t number) {
  // Other programs have files of this name, too.
  if (number == 0 && entries.contains(kLatestFile) && entries.contains(kConverter)) {
    const SharedBytes content = FolderReader(files, folder).bytes(kLatestFile);
    const std::string tag = trimmed(as_text(content.view));
    if (!is_plain_file_name(tag)) {
      throw_damaged(folder, kLatestFile, text("has no name of a folder: '{}'", tag));
    }
    if (!entries.contains(tag)) {
      throw CheckpointError(
          text("'{}/{}' names the folder '{}', which is missing", folder, kLatestFile, tag),
          "copy the whole checkpoint");
    }
    return tag;
  }
  const std::string own = kEngineFolder + (number == 0 ? "" : "_" + std::to_string(number));
  const auto found = entries.find(own);
  if (found != entries.end() && found->second.kind == DirEntry::Kind::kFolder) return own;
  return "";
}

}  // namespace

std::optional<DeepSpeedState> read_deepspeed_folder(Files& files, const std::string& folder,
                                                    const std::map<std::string, DirEntry>& entries,
                                                    size_t number) {
  const std::string inner = engine_folder(files, folder, entries, number);
  if (inner.empty() && number > 0) return std::nullopt;
  const std::string path = inner.empty() ? folder : folder + "/" + inner;
  const ZeroFiles zero = zero_files(path, inner.empty() ? entries : entries_of(files, path));
  if (zero.empty()) return std::nullopt;
  DeepSpeedState out;
  const FolderReader reader(files, path);
  if (!zero.optims.empty() || !zero.models.empty()) {
    read_sharded(path, reader, zero, out);
  } else {
    const Value model = torch_file_of(reader, zero.model);
    const Value* shapes = model.find("param_shapes");
    // Of stages 1 to 3, whose weights here are rounded ones.
    if (shapes && shapes->as<Value::List>()) check_ranks(path, zero.optims, 1, "optimizer states");
    guarded(path, zero.model, [&] { read_unsharded(model, out); });
  }
  if (!inner.empty()) out.files.insert(inner);
  for (const auto* name : {kLatestFile, kConverter, "zero_to_torch.py"}) {
    if (entries.contains(name)) out.files.insert(name);
  }
  if (inner.empty()) {
    for (const auto& [name, entry] : entries) {
      if (name.ends_with("_states.pt")) out.files.insert(name);
    }
  }
  return out;
}

}  // namespace accel
