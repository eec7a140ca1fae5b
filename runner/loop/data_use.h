// What a run has drawn of its training data so far.
#pragma once

#include <string>
#include <vector>

#include "runner/loop/train_loop.h"

namespace accel {

/// Of the epoch that `progress` is in, or at the end of: "data/share_1" and so on, the share of the
/// samples drawn of each of several datasets; "data/left_out", where samples cannot be read.
std::vector<Measurement> data_use(const Job& job, const Progress& progress);

/// "data of epoch 2  dataset 1 70.1 %  dataset 2 29.9 %  3 left out".
std::string data_use_line(const Progress& progress, const std::vector<Measurement>& values);

/// Tells both to the terminal, the trackers and the record, where there is something to tell.
void tell_data_use(LoopParts& parts, const Progress& progress);

}  // namespace accel
