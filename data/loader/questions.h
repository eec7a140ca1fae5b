// The questions of selected and combined datasets.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/api/dataset.h"
#include "core/api/question_windows.h"

namespace accel {

/// Numbers the questions of all datasets of which another one consists. The dataset must outlive
/// it.
class Questions {
 public:
  /// None for a dataset with other samples.
  static std::optional<Questions> of(const Dataset& dataset);

  int64_t count() const { return offsets_.back(); }
  /// `number` is in [0, count()).
  QuestionText question(int64_t number) const;
  /// Of the sample at `index`, with the number of its question among all.
  QuestionWindow window(int64_t index) const;

 private:
  explicit Questions(const Dataset& dataset) : dataset_(&dataset) {}

  const Dataset* dataset_;
  std::vector<std::pair<const Dataset*, const QuestionWindows*>> sources_;
  std::vector<int64_t> offsets_ = {0};  ///< first question of each source, and the total
};

}  // namespace accel
