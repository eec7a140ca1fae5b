// Mean and deviation of features and targets over the training rows of a draft: held-out rows must
// not be known to the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/datasets/text/text_records.h"
#include "runner/draft/recipe_draft.h"
#include "runner/draft/rows_plan.h"
#include "runner/draft/sniff_column.h"
#include "runner/draft/table_plan.h"

namespace accel {

/// For each of `samples`, whether the split of the draft leaves it for training; all without a
/// split. `classes` of the samples, by which the split is stratified; empty: none.
std::vector<bool> training_samples(const RecipeDraft& draft, int64_t samples,
                                   const std::vector<int64_t>& classes);

/// Replaces the moments of numbers and dates of `plan.table`, the file at `path`, by those of the
/// training rows. Rows without a target, or with an empty field in one of the columns `required`,
/// are not samples. Does nothing if all rows are for training.
void fit_moments(TablePlan& plan, const std::string& path, const RecipeDraft& draft,
                 const std::vector<size_t>& required = {});

/// Moments of the targets of the training rows. Unreadable records, and those without a text or a
/// number, are not samples.
ColumnMoments target_moments(const RowsPlan& plan, const RecordSource& source,
                             const RecipeDraft& draft);

/// "12.25", six significant digits.
std::string short_number(double value);

/// The task of a regression that learns targets in units of their deviation: a price is out of
/// reach of the learning rate.
std::string regression_task(const ColumnMoments& target);

}  // namespace accel
