// accel_run.json: what a checkpoint holds beside tensors, and the size and checksum of every file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runner/checkpoint/train_state.h"

namespace accel {

constexpr auto kManifestFile = "accel_run.json";

/// One file of a checkpoint.
struct FileRecord {
  int64_t bytes = 0;
  uint64_t checksum = 0;  ///< XXH3, 64 bits
};

struct Manifest {
  /// All but tensors. Those of schedule, scaler and parts are there by name, undefined.
  TrainState state;
  std::vector<std::string> model;           ///< every name, in the model's order
  std::map<std::string, std::string> tied;  ///< names that no file has, and whose tensor they are
  std::vector<std::string> optimizer;       ///< parameters in the order of the groups
  std::map<std::string, FileRecord> files;  ///< all but the manifest itself
};

/// The file's text: JSON that begins with the checksum of what follows it. Doubles are kept to the
/// bit. Throws std::invalid_argument for a text that is not UTF-8.
std::string write_manifest(const Manifest& manifest);

/// Throws FormatError for a text that write_manifest did not give.
Manifest read_manifest(std::string_view text);

}  // namespace accel
