// Curriculum learning: early steps draw easy samples only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/api/dataset.h"

namespace accel {

/// Growth of the share of samples that steps draw from.
enum class Pacing { kSqrt, kLinear };

struct CurriculumPlan {
  std::string by;             ///< kByLength, or a column of numbers; empty: no curriculum
  double until = 0;           ///< steps or epochs after which steps draw from all samples
  bool until_epochs = false;  ///< the unit of `until`
  double start = 0;           ///< share of the samples that the first step draws from
  Pacing pacing = Pacing::kSqrt;
};

/// CurriculumPlan::by of the lengths of samples in tokens.
constexpr auto kByLength = "length";

/// Implemented by datasets of records with named columns.
class RowNumbers {
 public:
  virtual ~RowNumbers() = default;
  /// For each sample the number in `column`. Throws Error for a missing column, and DataError for a
  /// value that is no number.
  virtual std::vector<double> row_numbers(const std::string& column) const = 0;
};

/// The share of samples, the easiest ones, that step `step` of a run draws from, of `steps` steps
/// until it is 1: the competence of Platanios et al., 2019.
double competence(const CurriculumPlan& plan, int64_t step, int64_t steps);

/// The orders of epochs under a curriculum.
class Curriculum {
 public:
  /// Of a dataset without an EpochOrder, in global batches of `batch` samples. Throws DataError for
  /// a dataset without known lengths or numbers.
  Curriculum(const Dataset& dataset, CurriculumPlan plan, int64_t batch, int64_t steps_per_epoch);

  /// Whether an epoch has steps that do not draw from all samples.
  bool restricts(int64_t epoch) const;
  /// The draws of an epoch, as EpochOrder::draws(), a pure function of its arguments. Each step
  /// draws different samples, uniformly from its share, which has one batch at least.
  std::vector<int64_t> draws(uint64_t seed, int64_t epoch) const;

 private:
  CurriculumPlan plan_;
  int64_t batch_;
  int64_t steps_per_epoch_;
  int64_t steps_;                 ///< of the curriculum
  std::vector<int64_t> easiest_;  ///< samples by difficulty, equal ones by index
};

}  // namespace accel
