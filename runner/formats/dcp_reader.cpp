// The reading half of dcp.h.
#include <algorithm>
#include <cstring>

#include "runner/formats/claim.h"
#include "runner/formats/dcp.h"
#include "runner/formats/torch_file.h"

namespace accel {
namespace {

/// Elements of a chunk, once it is known to lie inside `shape`.
int64_t chunk_count(const DcpChunk& chunk, const Shape& shape) {
  const size_t rank = shape.size();
  bool inside = chunk.offsets.size() == rank && chunk.sizes.size() == rank;
  for (size_t axis = 0; inside && axis < rank; ++axis) {
    inside = chunk.offsets[axis] <= shape[axis] &&
             chunk.sizes[axis] <= shape[axis] - chunk.offsets[axis];
  }
  if (!inside) {
    throw FormatError("its part of shape " + to_string(chunk.sizes) + " at " +
                      to_string(chunk.offsets) + " lies outside its shape " + to_string(shape));
  }
  return count_of(chunk.sizes);
}

/// Copies chunks to their places in a tensor and remembers which elements came.
class Assembly {
 public:
  Assembly(DType type, const Shape& shape)
      : whole_(type, shape), come_(static_cast<size_t>(whole_.count())) {}

  void place(const DcpChunk& chunk, const Array& part) {
    const Shape& shape = whole_.shape();
    // The axes from `split` on are whole, so that elements that follow each other in the chunk do
    // so in the tensor, too.
    size_t split = shape.size();
    size_t run = 1;
    while (split > 0) {
      --split;
      run *= static_cast<size_t>(chunk.sizes[split]);
      if (chunk.sizes[split] != shape[split]) break;
    }
    Shape index(split, 0);
    const size_t width = size_of(whole_.type());
    for (size_t done = 0; done < static_cast<size_t>(part.count()); done += run) {
      const size_t to = offset_of(chunk, index);
      std::memcpy(whole_.mutable_data() + to * width, part.data() + done * width, run * width);
      std::fill_n(come_.begin() + static_cast<ptrdiff_t>(to), run, true);
      for (size_t axis = split; axis-- > 0;) {
        if (++index[axis] < chunk.sizes[axis]) break;
        index[axis] = 0;
      }
    }
  }

  /// As many elements were placed as there are, so that one that came twice leaves a gap.
  Array finish() {
    if (std::find(come_.begin(), come_.end(), false) != come_.end()) {
      throw FormatError("its parts overlap");
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
  std::vector<bool> come_;
};

class DcpReader {
 public:
  explicit DcpReader(const DcpFiles& files) : files_(files), budget_(0, "the folder") {}

  DcpState read() {
    const SharedBytes file = files_(kDcpMetadataFile);
    try {
      metadata_ = read_dcp_metadata(file.view);
    } catch (const FormatError& error) {
      throw FormatError("'" + std::string(kDcpMetadataFile) + "': " + error.what());
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
        out.objects.emplace_back(name, read_torch_part(region({name, {}}), budget_, false));
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
      throw FormatError("'" + name + "': " + error.what());
    }
  }

  /// Every region is inside its file and shares no byte with another. So all parts together take no
  /// more memory than the files.
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
          throw FormatError("'" + name + "' has " + std::to_string(file.view.size()) +
                            " bytes, '.metadata' puts " + std::to_string(bytes) + " at " +
                            std::to_string(offset));
        }
        if (offset < end) {
          throw FormatError("'" + name + "' is to hold two things at byte " +
                            std::to_string(offset));
        }
        end = offset + bytes;
      }
    }
  }

  SharedBytes region(const DcpKey& key) const {
    const auto found = metadata_.regions.find(key);
    if (found == metadata_.regions.end()) {
      throw FormatError("'.metadata' does not say where it is" +
                        (key.second.empty() ? "" : " from " + to_string(key.second) + " on"));
    }
    const SharedBytes& file = mapped_.at(found->second.file);
    return {file.view.subspan(found->second.offset, found->second.bytes), file.owner};
  }

  /// A view of the file wherever the chunk is contiguous, aligned or not.
  Array chunk_data(const std::string& name, const DcpTensor& tensor, const DcpChunk& chunk) {
    const size_t before = budget_.left();
    const Value value = read_torch_part(region({name, chunk.offsets}), budget_, true);
    budget_.give_back(before - budget_.left());
    const auto* array = value.as<Array>();
    if (!array) throw FormatError("it is kept as something other than a tensor");
    if (array->type() != tensor.type || array->shape() != chunk.sizes) {
      throw FormatError("its part at " + to_string(chunk.offsets) + " is " +
                        name_of(array->type()) + " " + to_string(array->shape()) +
                        ", '.metadata' says " + name_of(tensor.type) + " " +
                        to_string(chunk.sizes));
    }
    return *array;
  }

  Array tensor(const std::string& name, const DcpTensor& tensor) {
    const auto claimed = claimed_bytes(tensor.type, tensor.shape);
    if (!claimed) throw FormatError("its shape " + to_string(tensor.shape) + " is too large");
    const auto wanted = static_cast<int64_t>(*claimed / size_of(tensor.type));
    int64_t held = 0;
    std::vector<const DcpChunk*> chunks;
    for (const DcpChunk& chunk : tensor.chunks) {
      const int64_t count = chunk_count(chunk, tensor.shape);
      if (count == 0) continue;  // a rank that had nothing of it
      if (__builtin_add_overflow(held, count, &held)) throw FormatError("its parts overlap");
      chunks.push_back(&chunk);
    }
    if (held != wanted) {
      throw FormatError("its parts hold " + std::to_string(held) + " elements, its shape " +
                        to_string(tensor.shape) + " wants " + std::to_string(wanted));
    }
    if (chunks.empty()) return Array(tensor.type, tensor.shape);
    // All parts are found before memory is taken for what they claim to be.
    std::vector<Array> parts;
    for (const DcpChunk* chunk : chunks) parts.push_back(chunk_data(name, tensor, *chunk));
    const auto address = reinterpret_cast<uintptr_t>(parts[0].data());
    if (chunks.size() == 1 && address % size_of(tensor.type) == 0) return parts[0];
    Assembly assembly(tensor.type, tensor.shape);
    for (size_t i = 0; i < chunks.size(); ++i) assembly.place(*chunks[i], parts[i]);
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
