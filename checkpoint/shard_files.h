// Files of a sharded checkpoint: each rank writes its rows of model, optimizer and callbacks.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/folder_writer.h"
#include "checkpoint/train_state.h"
#include "formats/tensors/dcp.h"

namespace accel {

/// The files that a rank has written.
struct ShardRecord {
  std::map<std::string, FileRecord> files;      ///< by name: "optimizer_0/__1_0.distcp"
  std::map<std::string, DcpMetadata> metadata;  ///< by folder, of this rank's chunks
};

/// As bytes, for another rank.
std::string to_bytes(const ShardRecord& record);
/// Throws FormatError.
ShardRecord shard_record_of(std::string_view bytes);

/// Whether this rank writes a tensor of this name that all ranks hold: such tensors are spread over
/// ranks.
bool writes_whole(const ShardLayout& layout, const std::string& name);

/// Undefines the tensors of a sharded state that this rank does not write.
void keep_written(TrainState& state);

/// Whether a tensor of a section is written as shards.
bool is_sharded_section(const TrainState& state, const std::string& section,
                        const std::string& name, const at::Tensor& tensor);

/// The folders of the shards; the same on all ranks, also after keep_written().
std::vector<std::string> shard_folders(const TrainState& state);

/// Writes and syncs the shards of a rank into the folders, which exist. Undefined tensors are
/// skipped; rank 0 writes the options of optimizers. Throws FileError.
ShardRecord write_shard_files(Files& files, const std::string& folder, const TrainState& state);

/// Writes and syncs `.metadata` of each folder, from the records of all ranks, and syncs the
/// folders. Throws FormatError when the shards do not fit together, and FileError.
void write_shard_metadata(Files& files, FolderWriter& writer, const std::string& folder,
                          std::vector<ShardRecord>& ranks);

/// The region of a tensor to read: of a parameter of this name and shape, or of the optimizer's or
/// a callback's tensor for it; null: all of it.
using RegionOf =
    std::function<std::optional<TensorRegion>(const std::string& parameter, const Shape& whole)>;

}  // namespace accel
