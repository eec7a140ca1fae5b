// PyTorch's distributed checkpoints (DCP): a folder with `.metadata` and files of torch files, a
// part of each tensor in each, as FSDP writes them. Read whole, by whatever number of ranks
// written.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runner/formats/dcp_metadata.h"
#include "runner/formats/mapped_file.h"
#include "runner/formats/safetensors.h"

namespace accel {

/// What a checkpoint holds, by flat names: "optimizer.state.net.weight.exp_avg".
struct DcpState {
  std::vector<NamedArray> tensors;
  std::vector<std::pair<std::string, Value>> objects;  ///< may hold arrays inside
  std::map<std::string, DcpPath> paths;                ///< of the names that were not flat
};

constexpr auto kDcpMetadataFile = ".metadata";
constexpr auto kDcpDataFile = "__0_0.distcp";

/// The bytes of a file of the folder, by its plain name. What it throws ends the reading.
using DcpFiles = std::function<SharedBytes(const std::string& name)>;

/// Sorted by name. A tensor that was kept in one part is a view where it is aligned, others are put
/// together in new memory. Throws FormatError, naming the file or the entry, unless the parts of
/// each tensor cover it exactly once.
DcpState read_dcp(const DcpFiles& files);

/// Writes what torch.distributed.checkpoint.load reads: all of `state` as one rank would, the bytes
/// of kDcpDataFile and then those of kDcpMetadataFile. Throws std::invalid_argument for a name that
/// comes twice.
void write_dcp(const DcpState& state, const ByteSink& data, const ByteSink& metadata);

}  // namespace accel
