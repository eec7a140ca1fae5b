// Records of a W&B run file (.wandb).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/tracker.h"
#include "runner/formats/protobuf.h"

namespace accel {

/// Names of values and the values as JSON text.
using JsonItems = std::vector<std::pair<std::string, std::string>>;

/// The bytes before the first record.
std::string wandb_file_head();

struct WandbRun {
  std::string id;
  std::string entity;
  std::string project;
  std::string name;
  std::string group;
  std::string notes;
  std::vector<std::string> tags;
  std::string host;
  double start_time = 0;  ///< seconds since 1970
  int64_t starting_step = 0;
  GitState git;
};

/// The variants of a record; WandbLog gives them their numbers.
ProtoMessage wandb_header_record();
ProtoMessage wandb_run_record(const WandbRun& run);
/// Dots in the names of options become nested sections.
ProtoMessage wandb_config_record(const ConfigValues& values);
ProtoMessage wandb_history_record(int64_t step, const JsonItems& row);
ProtoMessage wandb_summary_record(const JsonItems& values);
/// Announces a media file, relative to the run's files/.
ProtoMessage wandb_media_record(const std::string& path);
ProtoMessage wandb_exit_record(int exit_code, double runtime);

}  // namespace accel
