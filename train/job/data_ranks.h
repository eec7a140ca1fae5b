// The ranks with different samples, for verbs that divide their input.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "train/job/job.h"

namespace accel {

/// By default one process.
struct DataRanks {
  int64_t rank = 0;
  int64_t world = 1;
  /// The texts of all ranks, by rank, on each; all ranks call it.
  std::function<std::vector<std::string>(const std::string& own)> gather =
      [](const std::string& own) { return std::vector{own}; };
};

/// Those of the job's mesh, which outlives the result.
DataRanks data_ranks(const Job& job);

}  // namespace accel
