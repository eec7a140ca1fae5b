// Options of multi-label classification, which `predict` reads too.
#pragma once

#include <vector>

#include "core/recipe/schema.h"

namespace accel {

struct MultiLabelOptions {
  std::vector<double> threshold = {0.5};
  std::vector<double> pos_weight;

  static Schema<MultiLabelOptions> schema();

  /// One for each of `labels`. Throws Error (kRecipe) for another count.
  std::vector<double> thresholds(int64_t labels) const;
};

constexpr auto kMultiLabelTask = "multi_label_classification";

}  // namespace accel
