// PyTorch distributed checkpoints (DCP), as written by FSDP: `.metadata` and data files of tensor
// chunks. Reads checkpoints of any number of ranks and writes those of one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
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

/// Reads a checkpoint, sorted by name. An aligned tensor of one chunk is a view; others are
/// assembled in new memory. Throws FormatError with the file or entry unless the chunks of each
/// tensor cover it exactly once.
DcpState read_dcp(const DcpFiles& files);

/// Writes `state` as one rank for torch.distributed.checkpoint.load: kDcpDataFile to `data`, then
/// kDcpMetadataFile to `metadata`. Throws std::invalid_argument for duplicate names.
void write_dcp(const DcpState& state, const ByteSink& data, const ByteSink& metadata);

}  // namespace accel
