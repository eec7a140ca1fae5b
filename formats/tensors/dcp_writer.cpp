// Writer of dcp.h.
#include "formats/tensors/dcp.h"

#include <algorithm>
#include <set>
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

Value attributes(const std::vector<std::pair<const char*, Value>>& items) {
  Value::Dict out;
  for (const auto& [name, value] : items) out.items.emplace_back(name, value);
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
  DcpWriter(const std::string& file, const ByteSink& sink) : file_(file), sink_(sink) {}

  void object(const std::string& name, const Value& value) {
    metadata_.objects.push_back(name);
    region({name, {}}, value);
  }

  void tensor(const std::string& name, const Array& array) {
    shard(name, array, array.shape(), Shape(array.shape().size(), 0));
  }

  void shard(const std::string& name, const Array& array, const Shape& shape,
             const Shape& offsets) {
    DcpTensor& tensor = metadata_.tensors[name];
    tensor.type = array.type();
    tensor.shape = shape;
    tensor.chunks.push_back({offsets, array.shape()});
    region({name, offsets}, array);
  }

  /// Call last.
  DcpMetadata take_metadata() {
    flush();
    return std::move(metadata_);
  }

 private:
  void region(DcpKey key, const Value& value) {
    const std::string padding((kRegionAlignment - at_ % kRegionAlignment) % kRegionAlignment, '\0');
    put(as_bytes(padding));
    const uint64_t start = at_;
    write_torch_file(value, "archive", [this](ByteSpan bytes) { put(bytes); });
    metadata_.regions[std::move(key)] = {file_, start, at_ - start};
  }

  /// Collects small pieces: the sink may be a file.
  void put(ByteSpan bytes) {
    at_ += bytes.size();
    if (bytes.size() >= kBufferBytes) {
      flush();
      return sink_(bytes);
    }
    buffer_ += as_text(bytes);
    if (buffer_.size() >= kBufferBytes) flush();
  }

  void flush() {
    if (!buffer_.empty()) sink_(as_bytes(buffer_));
    buffer_.clear();
  }

  static constexpr size_t kBufferBytes = size_t{64} << 10;

  const std::string& file_;
  const ByteSink& sink_;
  std::string buffer_;
  uint64_t at_ = 0;
  DcpMetadata metadata_;
};

void check_names(const DcpPart& part) {
  std::map<std::string_view, std::set<Shape>> seen;  // offsets by name
  const auto add = [&](const std::string& name, const Shape& offsets) {
    if (seen[name].insert(offsets).second) return;
    throw std::invalid_argument(text("'{}' is twice in a distributed checkpoint", name));
  };
  for (const DcpShard& shard : part.shards) add(shard.name, shard.offsets);
  const auto add_whole = [&](const std::string& name) {
    add(name, seen.contains(name) ? *seen[name].begin() : Shape());
  };
  for (const NamedArray& tensor : part.rest.tensors) add_whole(tensor.name);
  for (const auto& [name, value] : part.rest.objects) add_whole(name);
}

/// Adds the chunks of another rank.
void merge_tensor(const std::string& name, DcpTensor&& from, DcpMetadata& out) {
  const auto [found, fresh] = out.tensors.try_emplace(name, DcpTensor{from.type, from.shape, {}});
  DcpTensor& to = found->second;
  if (to.type != from.type || to.shape != from.shape) {
    throw FormatError(text("'{}': it is {} {} on one rank and {} {} on another", name,
                           name_of(to.type), to_string(to.shape), name_of(from.type),
                           to_string(from.shape)));
  }
  for (DcpChunk& chunk : from.chunks) to.chunks.push_back(std::move(chunk));
}

bool have_common_elements(const DcpChunk& a, const DcpChunk& b) {
  for (size_t axis = 0; axis < a.sizes.size(); ++axis) {
    if (a.offsets[axis] + a.sizes[axis] <= b.offsets[axis]) return false;
    if (b.offsets[axis] + b.sizes[axis] <= a.offsets[axis]) return false;
  }
  return true;
}

/// Sorts the chunks, which must have every element of the tensor once.
void check_chunks(const std::string& name, DcpTensor& tensor) {
  std::sort(tensor.chunks.begin(), tensor.chunks.end(),
            [](const DcpChunk& a, const DcpChunk& b) { return a.offsets < b.offsets; });
  int64_t elements = 0;
  for (auto chunk = tensor.chunks.begin(); chunk != tensor.chunks.end(); ++chunk) {
    elements += count_of(chunk->sizes);
    // Of chunks of rows only the next one can overlap.
    for (auto next = chunk + 1; next != tensor.chunks.end() && !next->offsets.empty() &&
                                next->offsets[0] < chunk->offsets[0] + chunk->sizes[0];
         ++next) {
      if (!have_common_elements(*chunk, *next)) continue;
      throw FormatError(text("'{}': its chunks at {} and {} overlap", name,
                             to_string(chunk->offsets), to_string(next->offsets)));
    }
  }
  if (elements == count_of(tensor.shape)) return;
  throw FormatError(text("'{}': its chunks have {} elements, its shape {} has {}", name, elements,
                         to_string(tensor.shape), count_of(tensor.shape)));
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

std::string dcp_data_file(int64_t rank) {
  return "__" + std::to_string(rank) + "_0.distcp";
}

DcpMetadata write_dcp_part(const DcpPart& part, const std::string& file, const ByteSink& data) {
  check_names(part);
  DcpWriter writer(file, data);
  for (const auto& [name, value] : part.rest.objects) writer.object(name, value);
  for (const NamedArray& tensor : part.rest.tensors) writer.tensor(tensor.name, tensor.array);
  for (const DcpShard& shard : part.shards) {
    writer.shard(shard.name, shard.array(), shard.shape, shard.offsets);
  }
  DcpMetadata written = writer.take_metadata();
  written.paths = part.rest.paths;
  for (const DcpShard& shard : part.shards) written.paths[shard.name] = shard.path;
  return written;
}

DcpMetadata merge_dcp_metadata(std::vector<DcpMetadata> parts) {
  DcpMetadata out;
  for (DcpMetadata& part : parts) {
    for (auto& [name, tensor] : part.tensors) merge_tensor(name, std::move(tensor), out);
    for (auto& [key, region] : part.regions) {
      if (!out.regions.emplace(key, std::move(region)).second) {
        throw FormatError(text("'{}': two ranks have the same chunk", key.first));
      }
    }
    out.objects.insert(out.objects.end(), part.objects.begin(), part.objects.end());
    out.paths.merge(part.paths);
  }
  for (auto& [name, tensor] : out.tensors) check_chunks(name, tensor);
  return out;
}

void write_dcp(const DcpState& state, const ByteSink& data, const ByteSink& metadata) {
  metadata(as_bytes(dcp_metadata_text(write_dcp_part({{}, state}, kDcpDataFile, data))));
}

}  // namespace accel
