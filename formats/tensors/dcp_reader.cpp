// Reader of dcp.h.
#include "formats/tensors/dcp.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/text.h"
#include "formats/tensors/torch_file.h"
#include "formats/untrusted.h"

namespace accel {
namespace {

/// The number of elements of a chunk, after a check that it is inside `shape`.
int64_t chunk_count(const DcpChunk& chunk, const Shape& shape) {
  const size_t rank = shape.size();
  bool inside = chunk.offsets.size() == rank && chunk.sizes.size() == rank;
  for (size_t axis = 0; inside && axis < rank; ++axis) {
    inside = chunk.offsets[axis] <= shape[axis] &&
             chunk.sizes[axis] <= shape[axis] - chunk.offsets[axis];
  }
  if (!inside) {
    throw FormatError(text("its chunk of shape {} at {} is outside its shape {}",
                           to_string(chunk.sizes), to_string(chunk.offsets), to_string(shape)));
  }
  return count_of(chunk.sizes);
}

/// The overlap of two chunks; null when they have no element in common.
std::optional<DcpChunk> overlap(const DcpChunk& a, const DcpChunk& b) {
  DcpChunk out;
  for (size_t axis = 0; axis < a.sizes.size(); ++axis) {
    const int64_t begin = std::max(a.offsets[axis], b.offsets[axis]);
    const int64_t end = std::min(a.offsets[axis] + a.sizes[axis], b.offsets[axis] + b.sizes[axis]);
    if (begin >= end) return std::nullopt;
    out.offsets.push_back(begin);
    out.sizes.push_back(end - begin);
  }
  return out;
}

/// The position in `chunk` of the element `index` from the start of `part`, of which the first axes
/// are given.
size_t position(const DcpChunk& chunk, const DcpChunk& part, const Shape& index) {
  int64_t at = 0;
  for (size_t axis = 0; axis < chunk.sizes.size(); ++axis) {
    const int64_t inside = axis < index.size() ? index[axis] : 0;
    at = at * chunk.sizes[axis] + part.offsets[axis] - chunk.offsets[axis] + inside;
  }
  return static_cast<size_t>(at);
}

/// The first axis from which `part` has contiguous elements in both chunks, and their number.
std::pair<size_t, size_t> contiguous_run(const DcpChunk& part, const DcpChunk& a,
                                         const DcpChunk& b) {
  size_t axis = part.sizes.size();
  size_t run = 1;
  while (axis > 0) {
    --axis;
    run *= static_cast<size_t>(part.sizes[axis]);
    if (part.sizes[axis] != a.sizes[axis] || part.sizes[axis] != b.sizes[axis]) break;
  }
  return {axis, run};
}

/// Copies chunks into a region and records the elements written.
class Assembly {
 public:
  Assembly(DType type, DcpChunk region)
      : region_(std::move(region)),
        out_(type, region_.sizes),
        written_(static_cast<size_t>(out_.count())) {}

  void copy(const DcpChunk& chunk, const Array& data) {
    const std::optional<DcpChunk> part = overlap(chunk, region_);
    if (!part) return;
    const auto [split, run] = contiguous_run(*part, chunk, region_);
    Shape index(split, 0);
    const size_t width = size_of(out_.type());
    const auto count = static_cast<size_t>(count_of(part->sizes));
    for (size_t done = 0; done < count; done += run) {
      const size_t to = position(region_, *part, index), from = position(chunk, *part, index);
      std::memcpy(out_.mutable_data() + to * width, data.data() + from * width, run * width);
      std::fill_n(written_.begin() + static_cast<ptrdiff_t>(to), run, true);
      for (size_t axis = split; axis-- > 0;) {
        if (++index[axis] < part->sizes[axis]) break;
        index[axis] = 0;
      }
    }
  }

  /// The element counts match, so an element written twice leaves another one unwritten.
  Array finish() {
    if (std::find(written_.begin(), written_.end(), false) != written_.end()) {
      throw FormatError("its chunks overlap");
    }
    return std::move(out_);
  }

 private:
  DcpChunk region_;
  Array out_;
  std::vector<bool> written_;
};

class DcpReader {
 public:
  DcpReader(const DcpFiles& files, const DcpReadOptions& options)
      : files_(files), options_(options), budget_(0, "the folder") {}

  DcpState read() {
    const SharedBytes file = files_(kDcpMetadataFile);
    try {
      metadata_ = read_dcp_metadata(file.view);
    } catch (const FormatError& error) {
      throw FormatError(text("'{}': {}", kDcpMetadataFile, error.what()));
    }
    check_regions();
    DcpState out;
    for (const auto& [name, entry] : metadata_.tensors) {
      named(name, [&, &name = name, &entry = entry] {
        out.tensors.push_back({name, tensor(name, entry)});
      });
    }
    for (const std::string& name : metadata_.objects) {
      named(name, [&] {
        const SharedBytes bytes = region({name, {}});
        access(metadata_.regions.at({name, {}}).file, bytes.view);
        out.objects.emplace_back(name, read_embedded_torch_file(bytes, budget_, false));
      });
    }
    out.paths = std::move(metadata_.paths);
    return out;
  }

 private:
  template <class Act>
  static void named(const std::string& name, const Act& act) {
    try {
      act();
    } catch (const FormatError& error) {
      throw FormatError(text("'{}': {}", name, error.what()));
    }
  }

  /// Regions must be inside their files and must not overlap, which bounds the memory of all chunks
  /// by the size of the files.
  void check_regions() {
    std::map<std::string, std::vector<std::pair<uint64_t, uint64_t>>> ranges;
    for (const auto& [key, region] : metadata_.regions) {
      ranges[region.file].emplace_back(region.offset, region.bytes);
    }
    for (auto& [name, taken] : ranges) {
      const SharedBytes& file = mapped_.emplace(name, files_(name)).first->second;
      budget_.give_back(file.view.size());
      std::sort(taken.begin(), taken.end());
      uint64_t end = 0;
      for (const auto& [offset, bytes] : taken) {
        if (offset > file.view.size() || bytes > file.view.size() - offset) {
          throw FormatError(text("'{}' has {} bytes, '.metadata' has a region of {} bytes at {}",
                                 name, file.view.size(), bytes, offset));
        }
        if (offset < end) {
          throw FormatError(text("'{}' has overlapping regions at byte {}", name, offset));
        }
        end = offset + bytes;
      }
    }
  }

  SharedBytes region(const DcpKey& key) const {
    const auto found = metadata_.regions.find(key);
    if (found == metadata_.regions.end()) {
      const std::string chunk =
          key.second.empty() ? "" : text(" for its chunk at {}", to_string(key.second));
      throw FormatError(text("'.metadata' has no region{}", chunk));
    }
    const SharedBytes& file = mapped_.at(found->second.file);
    return {file.view.subspan(found->second.offset, found->second.bytes), file.owner};
  }

  void access(const std::string& file, ByteSpan bytes) const {
    if (options_.before_access) options_.before_access(file, bytes);
  }

  /// The first and last bytes of a torch file, which describe its content.
  void access_ends(const std::string& file, ByteSpan bytes) const {
    access(file, bytes.first(std::min(bytes.size(), kEndBytes)));
    access(file, bytes.last(std::min(bytes.size(), kEndBytes)));
  }

  /// A view of the file for a contiguous chunk, also an unaligned one.
  Array chunk_data(const std::string& name, const DcpTensor& tensor, const DcpChunk& chunk) {
    const size_t before = budget_.left();
    const SharedBytes bytes = region({name, chunk.offsets});
    access_ends(metadata_.regions.at({name, chunk.offsets}).file, bytes.view);
    const Value value = read_embedded_torch_file(bytes, budget_, true);
    budget_.give_back(before - budget_.left());
    const auto* array = value.as<Array>();
    if (!array) throw FormatError("its region does not hold a tensor");
    if (array->type() != tensor.type || array->shape() != chunk.sizes) {
      throw FormatError(text("its chunk at {} is {} {}, '.metadata' has {} {}",
                             to_string(chunk.offsets), name_of(array->type()),
                             to_string(array->shape()), name_of(tensor.type),
                             to_string(chunk.sizes)));
    }
    return *array;
  }

  /// The bytes of `part`, a part of the chunk, from its first to its last element.
  ByteSpan bytes_of(const Array& data, const DcpChunk& chunk, const DcpChunk& part) const {
    Shape last = part.sizes;
    for (int64_t& size : last) --size;
    const size_t width = size_of(data.type());
    const size_t begin = position(chunk, part, {}), end = position(chunk, part, last) + 1;
    return {data.data() + begin * width, (end - begin) * width};
  }

  /// The chunks with elements, after a check of their number.
  std::vector<const DcpChunk*> chunks_of(const DcpTensor& tensor) const {
    const auto claimed = claimed_bytes(tensor.type, tensor.shape);
    if (!claimed) {
      throw FormatError(text("its shape {} is too large", to_string(tensor.shape)));
    }
    const auto wanted = static_cast<int64_t>(*claimed / size_of(tensor.type));
    int64_t elements = 0;
    std::vector<const DcpChunk*> chunks;
    for (const DcpChunk& chunk : tensor.chunks) {
      const int64_t count = chunk_count(chunk, tensor.shape);
      if (count == 0) continue;  // the empty shard of a rank
      if (__builtin_add_overflow(elements, count, &elements))
        throw FormatError("its chunks overlap");
      chunks.push_back(&chunk);
    }
    if (elements != wanted) {
      throw FormatError(text("its chunks have {} elements, its shape {} has {}", elements,
                             to_string(tensor.shape), wanted));
    }
    return chunks;
  }

  DcpChunk region_of(const std::string& name, const DcpTensor& tensor) const {
    std::optional<DcpChunk> selected;
    if (options_.select) {
      const auto path = metadata_.paths.find(name);
      selected = options_.select(path == metadata_.paths.end() ? DcpPath{name} : path->second,
                                 tensor.shape);
    }
    return selected ? *selected : DcpChunk{Shape(tensor.shape.size(), 0), tensor.shape};
  }

  Array tensor(const std::string& name, const DcpTensor& tensor) {
    std::vector<const DcpChunk*> chunks = chunks_of(tensor);
    const DcpChunk wanted = region_of(name, tensor);
    std::erase_if(chunks, [&](const DcpChunk* chunk) { return !overlap(*chunk, wanted); });
    if (chunks.empty()) return Array(tensor.type, wanted.sizes);
    // All chunks are read before the whole tensor is allocated.
    std::vector<Array> data;
    for (const DcpChunk* chunk : chunks) {
      data.push_back(chunk_data(name, tensor, *chunk));
      access(metadata_.regions.at({name, chunk->offsets}).file,
             bytes_of(data.back(), *chunk, *overlap(*chunk, wanted)));
    }
    if (chunks.size() == 1) {
      if (const auto view = view_of(data[0], *chunks[0], wanted)) return *view;
    }
    Assembly assembly(tensor.type, wanted);
    for (size_t i = 0; i < chunks.size(); ++i) assembly.copy(*chunks[i], data[i]);
    return assembly.finish();
  }

  /// A view of a region that has contiguous, aligned elements in one chunk.
  static std::optional<Array> view_of(const Array& data, const DcpChunk& chunk,
                                      const DcpChunk& wanted) {
    if (overlap(chunk, wanted)->sizes != wanted.sizes) return std::nullopt;
    const auto count = static_cast<size_t>(count_of(wanted.sizes));
    if (contiguous_run(wanted, chunk, wanted).second != count) return std::nullopt;
    const std::byte* start = data.data() + position(chunk, wanted, {}) * size_of(data.type());
    if (reinterpret_cast<uintptr_t>(start) % size_of(data.type()) != 0) return std::nullopt;
    return Array(data.type(), wanted.sizes, start, data.owner());
  }

  static constexpr size_t kEndBytes = 4096;

  const DcpFiles& files_;
  const DcpReadOptions& options_;
  MemoryBudget budget_;
  DcpMetadata metadata_;
  std::map<std::string, SharedBytes> mapped_;
};

}  // namespace

DcpState read_dcp(const DcpFiles& files, const DcpReadOptions& options) {
  return DcpReader(files, options).read();
}

}  // namespace accel
