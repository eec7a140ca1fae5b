// The `.metadata` file of PyTorch's distributed checkpoints: what there is and where its bytes are.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runner/formats/pickle.h"

namespace accel {

/// A part of a tensor, kept as one.
struct DcpChunk {
  Shape offsets;
  Shape sizes;
};

struct DcpTensor {
  DType type = DType::kF32;
  Shape shape;
  std::vector<DcpChunk> chunks;
};

/// A run of bytes that is a torch file of its own.
struct DcpRegion {
  std::string file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// A name, and of a tensor's chunk where it begins.
using DcpKey = std::pair<std::string, Shape>;

/// Where a name was before its tree was made flat: texts and whole numbers.
using DcpPath = std::vector<Value>;

struct DcpMetadata {
  std::map<std::string, DcpTensor> tensors;
  std::vector<std::string> objects;  ///< in the order of their names
  std::map<DcpKey, DcpRegion> regions;
  std::map<std::string, DcpPath> paths;
};

/// Throws FormatError for another format or version, a tensor that is not strided or of a type
/// there is no DType for, a region outside a plain file name, and one that is missing.
DcpMetadata read_dcp_metadata(ByteSpan file);

/// A name without a path is its own.
std::string dcp_metadata_text(const DcpMetadata& metadata);

}  // namespace accel
