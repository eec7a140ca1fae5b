// Warnings about data with which training or evaluation is misleading.
#pragma once

#include <string>
#include <vector>

#include "train/job/job.h"

namespace accel {

/// Training data of a single class, and eval samples that are training samples as well. Reads at
/// most some thousand samples, for a few hundredths of a second.
std::vector<std::string> data_warnings(const Job& job);

}  // namespace accel
