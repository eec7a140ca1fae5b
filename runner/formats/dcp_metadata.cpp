// The reading half of dcp_metadata.h.
#include "runner/formats/dcp_metadata.h"

#include <algorithm>
#include <array>

#include "runner/formats/plain_file_name.h"
#include "runner/formats/torch_types.h"

namespace accel {
namespace {

// A pickle of objects unfolds to many times its size, a large one of honest chunks to 40.
constexpr size_t kTimesSize = 64;

std::string full_name(const Value::Global& global) {
  return global.module + "." + global.name;
}

bool known_dcp_global(const Value::Global& global) {
  constexpr std::array kNames = {"torch.distributed.checkpoint.metadata.Metadata",
                                 "torch.distributed.checkpoint.metadata.MetadataIndex",
                                 "torch.distributed.checkpoint.metadata.TensorStorageMetadata",
                                 "torch.distributed.checkpoint.metadata.BytesStorageMetadata",
                                 "torch.distributed.checkpoint.metadata.ChunkStorageMetadata",
                                 "torch.distributed.checkpoint.metadata.TensorProperties",
                                 "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING",
                                 "torch.distributed.checkpoint.metadata.StorageMeta",
                                 "torch.distributed.checkpoint.filesystem._StorageInfo",
                                 "torch.serialization._get_layout",
                                 "torch.Size",
                                 "collections.OrderedDict",
                                 "pathlib.Path",
                                 "pathlib.PosixPath",
                                 "pathlib.WindowsPath",
                                 "pathlib._local.PosixPath",
                                 "pathlib._local.WindowsPath"};
  if (std::find(kNames.begin(), kNames.end(), full_name(global)) != kNames.end()) return true;
  return global.module == "torch" && torch_type_named(global.name);
}

/// The attributes of an object of a class, by the last part of its name.
const Value& object_state(const Value& value, const char* wanted) {
  const auto* call = value.as<Value::Call>();
  if (!call || call->callable.name != wanted) {
    throw FormatError("something other than a " + std::string(wanted) + " is where one should be");
  }
  if (call->state.empty()) throw FormatError("a " + std::string(wanted) + " has no attributes");
  return call->state[0];
}

const Value& attribute(const Value& state, const char* name) {
  const Value* found = state.find(name);
  if (!found) throw FormatError("the attribute '" + std::string(name) + "' is missing");
  return *found;
}

const std::string& text_in(const Value& value, const char* what) {
  if (const auto* text = value.as<std::string>()) return *text;
  throw FormatError("'" + std::string(what) + "' is not a text");
}

const Value::Dict& dict_in(const Value& value, const char* what) {
  if (const auto* dict = value.as<Value::Dict>()) return *dict;
  throw FormatError("'" + std::string(what) + "' is not a dict");
}

uint64_t count_in(const Value& value, const char* what) {
  const auto* number = value.as<int64_t>();
  if (!number || *number < 0) throw FormatError("'" + std::string(what) + "' is no count");
  return static_cast<uint64_t>(*number);
}

/// torch.Size((2, 3)), or the tuple or list alone.
Shape shape_in(const Value& value, const char* what) {
  const auto* call = value.as<Value::Call>();
  const bool size =
      call && full_name(call->callable) == "torch.Size" && call->arguments.size() == 1;
  const Value& items = size ? call->arguments[0] : value;
  const auto* tuple = items.as<Value::Tuple>();
  const auto* list = items.as<Value::List>();
  if (!tuple && !list) throw FormatError("'" + std::string(what) + "' is no size");
  Shape out;
  for (const Value& item : tuple ? tuple->items : list->items) {
    out.push_back(static_cast<int64_t>(count_in(item, what)));
  }
  return out;
}

DType type_in(const Value& properties) {
  // Its __getstate__ gives a tuple: type, layout, requires_grad, memory format, pinned.
  const auto* tuple = object_state(properties, "TensorProperties").as<Value::Tuple>();
  if (!tuple || tuple->items.size() < 2) throw FormatError("its properties are not a tuple");
  const auto* dtype = tuple->items[0].as<Value::Global>();
  const TorchType* type = dtype ? torch_type_named(dtype->name) : nullptr;
  if (!type) throw FormatError("its type is none of PyTorch's");
  const auto* layout = tuple->items[1].as<Value::Call>();
  if (!layout || layout->callable.name != "_get_layout" || layout->arguments.size() != 1 ||
      text_in(layout->arguments[0], "layout") != "torch.strided") {
    throw FormatError("its layout is not 'torch.strided'");
  }
  return type->type;
}

DcpTensor tensor_in(const Value& state) {
  DcpTensor out;
  out.type = type_in(attribute(state, "properties"));
  out.shape = shape_in(attribute(state, "size"), "size");
  const auto* chunks = attribute(state, "chunks").as<Value::List>();
  if (!chunks) throw FormatError("'chunks' is not a list");
  for (const Value& chunk : chunks->items) {
    const Value& parts = object_state(chunk, "ChunkStorageMetadata");
    out.chunks.push_back({shape_in(attribute(parts, "offsets"), "offsets"),
                          shape_in(attribute(parts, "sizes"), "sizes")});
  }
  return out;
}

void read_entries(const Value& entries, DcpMetadata& out) {
  for (const auto& [key, value] : dict_in(entries, "state_dict_metadata").items) {
    const std::string& name = text_in(key, "state_dict_metadata");
    try {
      const auto* call = value.as<Value::Call>();
      if (call && call->callable.name == "BytesStorageMetadata") {
        out.objects.push_back(name);
      } else {
        const Value& state = object_state(value, "TensorStorageMetadata");
        if (!out.tensors.emplace(name, tensor_in(state)).second) {
          throw FormatError("it comes twice");
        }
      }
    } catch (const FormatError& error) {
      throw FormatError("'" + name + "': " + error.what());
    }
  }
  std::sort(out.objects.begin(), out.objects.end());
  for (size_t i = 0; i < out.objects.size(); ++i) {
    const std::string& name = out.objects[i];
    if ((i > 0 && out.objects[i - 1] == name) || out.tensors.contains(name)) {
      throw FormatError("'" + name + "': it comes twice");
    }
  }
}

DcpRegion region_in(const Value& info) {
  const Value& state = object_state(info, "_StorageInfo");
  const Value* transforms = state.find("transform_descriptors");
  if (transforms && !transforms->as<Value::None>()) {
    throw FormatError("it is kept compressed or otherwise transformed");
  }
  DcpRegion out = {text_in(attribute(state, "relative_path"), "relative_path"),
                   count_in(attribute(state, "offset"), "offset"),
                   count_in(attribute(state, "length"), "length")};
  if (!is_plain_file_name(out.file)) {
    throw FormatError("it is in '" + out.file + "', which is no name of a file in the folder");
  }
  return out;
}

void read_regions(const Value& storage, DcpMetadata& out) {
  for (const auto& [index, info] : dict_in(storage, "storage_data").items) {
    const Value& state = object_state(index, "MetadataIndex");
    DcpKey key = {text_in(attribute(state, "fqn"), "fqn"), {}};
    const Value* offset = state.find("offset");
    if (offset && !offset->as<Value::None>()) key.second = shape_in(*offset, "offset");
    const std::string name = key.first;
    try {
      if (!out.regions.emplace(std::move(key), region_in(info)).second) {
        throw FormatError("the same part of it is kept twice");
      }
    } catch (const FormatError& error) {
      throw FormatError("'" + name + "': " + error.what());
    }
  }
}

void read_paths(const Value& planner, DcpMetadata& out) {
  const auto* dict = planner.as<Value::Dict>();
  if (!dict) return;  // a planner of one's own may keep anything
  for (const auto& [key, value] : dict->items) {
    const auto* name = key.as<std::string>();
    const auto* path = value.as<Value::Tuple>();
    if (!name || !path) continue;
    out.paths[*name] = path->items;
  }
}

}  // namespace

DcpMetadata read_dcp_metadata(ByteSpan file) {
  MemoryBudget budget(file.size() * kTimesSize, "the pickle");
  const Value root =
      read_pickle(file, {.allowed = known_dcp_global, .protocol = 4, .keep_state = true}, budget);
  const Value& state = object_state(root, "Metadata");
  const Value* version = state.find("version");
  const auto* number = version ? version->as<std::string>() : nullptr;
  if (number && !number->starts_with("1.")) {
    throw FormatError("the version is '" + *number + "', 1.x is read");
  }
  DcpMetadata out;
  read_entries(attribute(state, "state_dict_metadata"), out);
  read_regions(attribute(state, "storage_data"), out);
  if (const Value* planner = state.find("planner_data")) read_paths(*planner, out);
  return out;
}

}  // namespace accel
