// Reader of dcp.h.
#include "formats/tensors/dcp.h"

#include <algorithm>
#include <cstring>

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

/// Copies chunks into a tensor and records the elements written.
class Assembly {
 public:
  Assembly(DType type, const Shape& shape)
      : whole_(type, shape), written_(static_cast<size_t>(whole_.count())) {}

  void copy(const DcpChunk& chunk, const Array& data) {
    const Shape& shape = whole_.shape();
    // Axes from `split` on are whole: their elements are contiguous in chunk and tensor.
    size_t split = shape.size();
    size_t run = 1;
    while (split > 0) {
      --split;
      run *= static_cast<size_t>(chunk.sizes[split]);
      if (chunk.sizes[split] != shape[split]) break;
    }
    Shape index(split, 0);
    const size_t width = size_of(whole_.type());
    for (size_t done = 0; done < static_cast<size_t>(data.count()); done += run) {
      const size_t to = offset_of(chunk, index);
      std::memcpy(whole_.mutable_data() + to * width, data.data() + done * width, run * width);
      std::fill_n(written_.begin() + static_cast<ptrdiff_t>(to), run, true);
      for (size_t axis = split; axis-- > 0;) {
        if (++index[axis] < chunk.sizes[axis]) break;
        index[axis] = 0;
      }
    }
  }

  /// The element counts match, so an element written twice leaves another one unwritten.
  Array finish() {
    if (std::find(written_.begin(), written_.end(), false) != written_.end()) {
      throw FormatError("its chunks overlap");
    }
    return std::move(whole_);
  }

 private:
  size_t offset_of(const DcpChunk& chunk, const Shape& index) const {
    int64_t at = 0;
    for (size_t axis = 0; axis < chunk.offsets.size(); ++axis) {
      const int64_t inside = axis < index.size() ? index[axis] : 0;
      at = at * whole_.shape()[axis] + chunk.offsets[axis] + inside;
    }
    return static_cast<size_t>(at);
  }

  Array whole_;
  std::vector<bool> written_;
};

class DcpReader {
 public:
  explicit DcpReader(const DcpFiles& files) : files_(files), budget_(0, "the folder") {}

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
        out.objects.emplace_back(name,
                                 read_embedded_torch_file(region({name, {}}), budget_, false));
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

  /// A view of the file for a contiguous chunk, also an unaligned one.
  Array chunk_data(const std::string& name, const DcpTensor& tensor, const DcpChunk& chunk) {
    const size_t before = budget_.left();
    const Value value = read_embedded_torch_file(region({name, chunk.offsets}), budget_, true);
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

  Array tensor(const std::string& name, const DcpTensor& tensor) {
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
    if (chunks.empty()) return Array(tensor.type, tensor.shape);
    // All chunks are read before the whole tensor is allocated.
    std::vector<Array> data;
    for (const DcpChunk* chunk : chunks) data.push_back(chunk_data(name, tensor, *chunk));
    const auto address = reinterpret_cast<uintptr_t>(data[0].data());
    if (chunks.size() == 1 && address % size_of(tensor.type) == 0) return data[0];
    Assembly assembly(tensor.type, tensor.shape);
    for (size_t i = 0; i < chunks.size(); ++i) assembly.copy(*chunks[i], data[i]);
    return assembly.finish();
  }

  const DcpFiles& files_;
  MemoryBudget budget_;
  DcpMetadata metadata_;
  std::map<std::string, SharedBytes> mapped_;
};

}  // namespace

DcpState read_dcp(const DcpFiles& files) {
  return DcpReader(files).read();
}

}  // namespace accel
