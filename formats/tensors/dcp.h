// PyTorch distributed checkpoints (DCP), as written by FSDP: `.metadata` and data files of tensor
// chunks, one per rank. Reads and writes those of any number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mapped_file.h"
#include "formats/tensors/pickle.h"
#include "formats/tensors/safetensors.h"

namespace accel {

/// A chunk of a tensor.
struct DcpChunk {
  Shape offsets;
  Shape sizes;
};

struct DcpTensor {
  DType type = DType::kF32;
  Shape shape;
  std::vector<DcpChunk> chunks;
};

/// A byte range of a file that holds one torch file.
struct DcpRegion {
  std::string file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// A name and, for a chunk of a tensor, its offsets.
using DcpKey = std::pair<std::string, Shape>;

/// The path of a name before flattening: strings and integers.
using DcpPath = std::vector<Value>;

struct DcpMetadata {
  std::map<std::string, DcpTensor> tensors;
  std::vector<std::string> objects;  ///< sorted
  std::map<DcpKey, DcpRegion> regions;
  std::map<std::string, DcpPath> paths;
};

/// Throws FormatError for another format or version, tensors that are not strided or of an
/// unsupported type, missing regions, and file names that leave the folder.
DcpMetadata read_dcp_metadata(ByteSpan file);

/// The pickle of `metadata`. A name without a path is its own path.
std::string dcp_metadata_text(const DcpMetadata& metadata);

/// The state dict of a checkpoint by flat names: "optimizer.state.net.weight.exp_avg".
struct DcpState {
  std::vector<NamedArray> tensors;
  std::vector<std::pair<std::string, Value>> objects;  ///< may contain arrays
  std::map<std::string, DcpPath> paths;                ///< of flattened names
};

constexpr auto kDcpMetadataFile = ".metadata";
constexpr auto kDcpDataFile = "__0_0.distcp";

/// Opens a file of the folder by name; its exceptions end the reading.
using DcpFiles = std::function<SharedBytes(const std::string& name)>;

struct DcpReadOptions {
  /// The region of a tensor to read, by its path and shape, inside that shape; null: all of it.
  std::function<std::optional<DcpChunk>(const DcpPath& path, const Shape& shape)> select = {};
  /// Called before bytes of a file are accessed.
  std::function<void(const std::string& file, ByteSpan bytes)> before_access = {};
};

/// Reads a checkpoint, sorted by name. An aligned region of one chunk is a view where its elements
/// are contiguous; others are assembled in new memory. Throws FormatError with the file or entry
/// unless the chunks of each tensor cover it exactly once; of a tensor read in part, unless they
/// have its number of elements and cover the region exactly once.
DcpState read_dcp(const DcpFiles& files, const DcpReadOptions& options = {});

/// Writes `state` as one rank for torch.distributed.checkpoint.load: kDcpDataFile to `data`, then
/// kDcpMetadataFile to `metadata`. Throws std::invalid_argument for duplicate names.
void write_dcp(const DcpState& state, const ByteSink& data, const ByteSink& metadata);

/// A chunk of a tensor of shape `shape`, which begins at `offsets`. A tensor may have several.
struct DcpShard {
  std::string name;
  DcpPath path;
  /// Called once, when the chunk is written.
  std::function<Array()> array;
  Shape shape;
  Shape offsets;
};

/// What one rank writes.
struct DcpPart {
  std::vector<DcpShard> shards;
  DcpState rest;  ///< whole tensors and objects, of one rank alone

  bool empty() const { return shards.empty() && rest.tensors.empty() && rest.objects.empty(); }
};

/// "__3_0.distcp"
std::string dcp_data_file(int64_t rank);

/// Writes the data file `file` of a rank to `data` and returns its metadata. Throws
/// std::invalid_argument for duplicate names.
DcpMetadata write_dcp_part(const DcpPart& part, const std::string& file, const ByteSink& data);

/// The metadata of a checkpoint from those of its ranks. Throws FormatError with the entry when
/// ranks disagree about it, or their chunks do not have every element of the tensor once.
DcpMetadata merge_dcp_metadata(std::vector<DcpMetadata> parts);

}  // namespace accel
