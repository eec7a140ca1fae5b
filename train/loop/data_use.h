// Use of the training data: the share of each dataset in the samples so far, and skipped samples.
#pragma once

#include <string>
#include <vector>

#include "train/loop/loop_context.h"

namespace accel {

/// Of the epoch that `progress` is in or has just finished: "data/share_1", ..., the share of each
/// dataset of a mixture in the samples; "data/left_out", the number of unreadable samples skipped.
std::vector<Measurement> data_use(const Job& job, const Progress& progress);

/// "data of epoch 2  dataset 1 70.1 %  dataset 2 29.9 %  3 skipped".
std::string data_use_line(const Progress& progress, const std::vector<Measurement>& values);

/// Logs data_use() to the terminal, the trackers and the record, unless it is empty.
void log_data_use(const LoopContext& context, const Progress& progress);

}  // namespace accel
