// Points of a mixture's weights as steps of the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/loader/mixture_schedule.h"
#include "train/job/job.h"

namespace accel {

/// The schedule of datasets with these weights and `samples` samples in all; none if all weights
/// are constant. Throws RecipeError for points without a step, points that do not ascend, and steps
/// at which no dataset has a weight; DataError where some datasets have no weight.
std::optional<MixtureSchedule> mixture_schedule(
    const Job& job, const std::vector<std::optional<MixtureWeight>>& weights, int64_t samples);

/// The datasets of the job's training data and their shares, such as "1 jsonl a.jsonl, 2 csv b.csv;
/// 75 % : 25 % at step 0, 50 % : 50 % at step 10, linear between them"; "" if it is no mixture.
std::string mixture_summary(const Job& job);

}  // namespace accel
