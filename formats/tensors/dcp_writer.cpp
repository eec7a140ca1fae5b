// Writer of dcp.h.
#include "formats/tensors/dcp.h"

#include <stdexcept>

#include "core/base/text.h"
#include "formats/tensors/torch_file.h"
#include "formats/tensors/torch_types.h"

namespace accel {
namespace {

constexpr auto kMetadataModule = "torch.distributed.checkpoint.metadata";
constexpr uint64_t kRegionAlignment = 64;  // keeps the alignment of the torch files

/// A pickled object: its class and its state.
Value object_of(const char* module, const char* name, Value state) {
  return Value::Call{{module, name}, {}, {std::move(state)}};
}

Value attributes(std::vector<std::pair<const char*, Value>> items) {
  Value::Dict out;
  for (auto& [name, value] : items) out.items.emplace_back(name, std::move(value));
  return out;
}

Value size_of_shape(const Shape& shape) {
  Value::Tuple sizes;
  for (const int64_t size : shape) sizes.items.emplace_back(size);
  return Value::Call{{"torch", "Size"}, {std::move(sizes)}};
}

Value tensor_entry(const DcpTensor& tensor) {
  const Value::Call strided = {{"torch.serialization", "_get_layout"}, {"torch.strided"}};
  const Value::Call contiguous = {{kMetadataModule, "_MEM_FORMAT_ENCODING"}, {0}};
  const Value::Global type = {"torch", torch_type(tensor.type).dtype};
  Value::List chunks;
  for (const DcpChunk& chunk : tensor.chunks) {
    chunks.items.push_back(object_of(kMetadataModule, "ChunkStorageMetadata",
                                     attributes({{"offsets", size_of_shape(chunk.offsets)},
                                                 {"sizes", size_of_shape(chunk.sizes)}})));
  }
  Value properties = object_of(kMetadataModule, "TensorProperties",
                               Value::Tuple{{type, strided, false, contiguous, false}});
  return object_of(kMetadataModule, "TensorStorageMetadata",
                   attributes({{"properties", std::move(properties)},
                               {"size", size_of_shape(tensor.shape)},
                               {"chunks", std::move(chunks)}}));
}

/// Writes regions in order and records their offsets.
class DcpWriter {
 public:
  explicit DcpWriter(const ByteSink& sink) : sink_(sink) {}

  void object(const std::string& name, const Value& value) {
    metadata_.objects.push_back(name);
    region({name, {}}, value);
  }

  void tensor(const std::string& name, const Array& array) {
    const Shape start(array.shape().size(), 0);
    metadata_.tensors[name] = {array.type(), array.shape(), {{start, array.shape()}}};
    region({name, start}, array);
  }

  DcpMetadata take_metadata() { return std::move(metadata_); }

 private:
  void region(DcpKey key, const Value& value) {
    const std::string padding((kRegionAlignment - at_ % kRegionAlignment) % kRegionAlignment, '\0');
    put(as_bytes(padding));
    const uint64_t start = at_;
    write_torch_file(value, "archive", [this](ByteSpan bytes) { put(bytes); });
    metadata_.regions[std::move(key)] = {kDcpDataFile, start, at_ - start};
  }

  void put(ByteSpan bytes) {
    sink_(bytes);
    at_ += bytes.size();
  }

  const ByteSink& sink_;
  uint64_t at_ = 0;
  DcpMetadata metadata_;
};

void check_names(const DcpState& state) {
  std::map<std::string_view, int> seen;
  for (const NamedArray& tensor : state.tensors) ++seen[tensor.name];
  for (const auto& [name, value] : state.objects) ++seen[name];
  for (const auto& [name, times] : seen) {
    if (times > 1) {
      throw std::invalid_argument(text("'{}' is twice in a distributed checkpoint", name));
    }
  }
}

}  // namespace

std::string dcp_metadata_text(const DcpMetadata& metadata) {
  Value::Dict entries, storage, paths;
  const auto add_entry = [&](const std::string& name, Value entry) {
    entries.items.emplace_back(name, std::move(entry));
    const auto path = metadata.paths.find(name);
    paths.items.emplace_back(
        name, Value::Tuple{path == metadata.paths.end() ? DcpPath{name} : path->second});
  };
  for (const std::string& name : metadata.objects) {
    add_entry(name, Value::Call{{kMetadataModule, "BytesStorageMetadata"}, {}});
  }
  for (const auto& [name, tensor] : metadata.tensors) add_entry(name, tensor_entry(tensor));
  for (const auto& [key, region] : metadata.regions) {
    const auto& [name, offsets] = key;
    Value start;
    if (metadata.tensors.contains(name)) start = size_of_shape(offsets);
    storage.items.emplace_back(
        object_of(kMetadataModule, "MetadataIndex",
                  attributes({{"fqn", name}, {"index", Value()}, {"offset", std::move(start)}})),
        object_of("torch.distributed.checkpoint.filesystem", "_StorageInfo",
                  attributes({{"relative_path", region.file},
                              {"offset", static_cast<int64_t>(region.offset)},
                              {"length", static_cast<int64_t>(region.bytes)}})));
  }
  return write_pickle(object_of(kMetadataModule, "Metadata",
                                attributes({{"state_dict_metadata", std::move(entries)},
                                            {"planner_data", std::move(paths)},
                                            {"storage_data", std::move(storage)},
                                            {"storage_meta", Value()},
                                            {"version", "1.0.0"}})),
                      4);
}

void write_dcp(const DcpState& state, const ByteSink& data, const ByteSink& metadata) {
  check_names(state);
  DcpWriter writer(data);
  for (const auto& [name, value] : state.objects) writer.object(name, value);
  for (const NamedArray& tensor : state.tensors) writer.tensor(tensor.name, tensor.array);
  DcpMetadata written = writer.take_metadata();
  written.paths = state.paths;
  metadata(as_bytes(dcp_metadata_text(written)));
}

}  // namespace accel
