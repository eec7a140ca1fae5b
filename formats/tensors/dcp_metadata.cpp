// Reader of `.metadata`; dcp_writer.cpp has the writer.
#include "formats/tensors/dcp.h"

#include <algorithm>
#include <array>

#include "core/base/text.h"
#include "formats/tensors/torch_types.h"
#include "formats/untrusted.h"

namespace accel {
namespace {

// A pickle of chunks expands to about 40 times its size.
constexpr size_t kPickleExpansion = 64;

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

/// The attributes of an object of class `wanted`.
const Value& object_state(const Value& value, const char* wanted) {
  const auto* call = value.as<Value::Call>();
  if (!call || call->callable.name != wanted) {
    throw FormatError(text("expected a {}", wanted));
  }
  if (call->state.empty()) {
    throw FormatError(text("a {} has no attributes", wanted));
  }
  return call->state[0];
}

const Value& attribute(const Value& state, const char* name) {
  const Value* found = state.find(name);
  if (!found) {
    throw FormatError(text("the attribute '{}' is missing", name));
  }
  return *found;
}

const std::string& text_in(const Value& value, const char* what) {
  if (const auto* string = value.as<std::string>()) return *string;
  throw FormatError(text("'{}' is not a string", what));
}

const Value::Dict& dict_in(const Value& value, const char* what) {
  if (const auto* dict = value.as<Value::Dict>()) return *dict;
  throw FormatError(text("'{}' is not a dict", what));
}

uint64_t count_in(const Value& value, const char* what) {
  const auto* number = value.as<int64_t>();
  if (!number || *number < 0) {
    throw FormatError(text("'{}' is not a count", what));
  }
  return static_cast<uint64_t>(*number);
}

/// torch.Size((2, 3)), a tuple or a list.
Shape shape_in(const Value& value, const char* what) {
  const auto* call = value.as<Value::Call>();
  const bool size =
      call && full_name(call->callable) == "torch.Size" && call->arguments.size() == 1;
  const Value& items = size ? call->arguments[0] : value;
  const auto* tuple = items.as<Value::Tuple>();
  const auto* list = items.as<Value::List>();
  if (!tuple && !list) {
    throw FormatError(text("'{}' is not a size", what));
  }
  Shape out;
  for (const Value& item : tuple ? tuple->items : list->items) {
    out.push_back(static_cast<int64_t>(count_in(item, what)));
  }
  return out;
}

DType type_in(const Value& properties) {
  // __getstate__ returns (dtype, layout, requires_grad, memory format, pinned).
  const auto* tuple = object_state(properties, "TensorProperties").as<Value::Tuple>();
  if (!tuple || tuple->items.size() < 2) throw FormatError("its properties are not a tuple");
  const auto* dtype = tuple->items[0].as<Value::Global>();
  const TorchType* type = dtype ? torch_type_named(dtype->name) : nullptr;
  if (!type) throw FormatError("its type is not supported");
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
    const Value& extent = object_state(chunk, "ChunkStorageMetadata");
    out.chunks.push_back({shape_in(attribute(extent, "offsets"), "offsets"),
                          shape_in(attribute(extent, "sizes"), "sizes")});
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
          throw FormatError("duplicate entry");
        }
      }
    } catch (const FormatError& error) {
      throw FormatError(text("'{}': {}", name, error.what()));
    }
  }
  std::sort(out.objects.begin(), out.objects.end());
  for (size_t i = 0; i < out.objects.size(); ++i) {
    const std::string& name = out.objects[i];
    if ((i > 0 && out.objects[i - 1] == name) || out.tensors.contains(name)) {
      throw FormatError(text("'{}': duplicate entry", name));
    }
  }
}

DcpRegion region_in(const Value& info) {
  const Value& state = object_state(info, "_StorageInfo");
  const Value* transforms = state.find("transform_descriptors");
  if (transforms && !transforms->as<Value::None>()) {
    throw FormatError("it is compressed or transformed, which is not supported");
  }
  DcpRegion out = {text_in(attribute(state, "relative_path"), "relative_path"),
                   count_in(attribute(state, "offset"), "offset"),
                   count_in(attribute(state, "length"), "length")};
  if (!is_plain_file_name(out.file)) {
    throw FormatError(text("its file '{}' is not a file name in the folder", out.file));
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
        throw FormatError("duplicate chunk");
      }
    } catch (const FormatError& error) {
      throw FormatError(text("'{}': {}", name, error.what()));
    }
  }
}

void read_paths(const Value& planner, DcpMetadata& out) {
  const auto* dict = planner.as<Value::Dict>();
  if (!dict) return;  // custom planners may store anything
  for (const auto& [key, value] : dict->items) {
    const auto* name = key.as<std::string>();
    const auto* path = value.as<Value::Tuple>();
    if (!name || !path) continue;
    out.paths[*name] = path->items;
  }
}

}  // namespace

DcpMetadata read_dcp_metadata(ByteSpan file) {
  MemoryBudget budget(file.size() * kPickleExpansion, "the pickle");
  const Value root =
      read_pickle(file, {.allowed = known_dcp_global, .protocol = 4, .keep_state = true}, budget);
  const Value& state = object_state(root, "Metadata");
  const Value* version = state.find("version");
  const auto* number = version ? version->as<std::string>() : nullptr;
  if (number && !number->starts_with("1.")) {
    throw FormatError(text("the version is '{}', 1.x wanted", *number));
  }
  DcpMetadata out;
  read_entries(attribute(state, "state_dict_metadata"), out);
  read_regions(attribute(state, "storage_data"), out);
  if (const Value* planner = state.find("planner_data")) read_paths(*planner, out);
  return out;
}

}  // namespace accel
