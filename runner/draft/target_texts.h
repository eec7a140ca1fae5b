// Drafts for encoder-decoders: sources and targets in JSON rows or columns.
#pragma once

#include <string>
#include <vector>

#include "runner/draft/rows_plan.h"

namespace accel {

/// The plan for an encoder-decoder: a prompt of one field and its completion are a source and a
/// target; others stay.
RowsPlan plan_for_targets(RowsPlan plan);

/// Lines of the dataset beside type, path and tokenizer.
std::vector<std::string> target_lines(const SniffedRows& rows, const RowsPlan& plan);

}  // namespace accel
