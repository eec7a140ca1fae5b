// The manifest accel_run.json: the state without tensors, and size and checksum of every file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/train_state.h"

namespace accel {

constexpr auto kManifestFile = "accel_run.json";

/// One file of a checkpoint.
struct FileRecord {
  int64_t bytes = 0;
  uint64_t checksum = 0;  ///< XXH3, 64 bits
};

struct Manifest {
  /// Without tensors: those of schedule, scaler and sections are undefined, under their names.
  TrainState state;
  std::vector<std::string> model;           ///< all names, in the model's order
  std::map<std::string, std::string> tied;  ///< names without a tensor, and the name with theirs
  std::vector<std::string> optimizer;       ///< parameter names by id
  std::map<std::string, FileRecord> files;  ///< all but the manifest
};

/// JSON that starts with the checksum of the rest. Doubles are bit-exact. Throws
/// std::invalid_argument for a text that is not UTF-8.
std::string write_manifest(const Manifest& manifest);

/// Throws FormatError for an invalid manifest.
Manifest read_manifest(std::string_view text);

}  // namespace accel
