#include "data/loader/curriculum.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/api/sample_rng.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "data/loader/epoch_order.h"
#include "data/loader/mixture.h"
#include "data/loader/selected_samples.h"

namespace accel {
namespace {

/// Of the random streams of curricula, apart from those of augmentation.
constexpr uint64_t kCurriculumStream = 0x43555252;

/// Of a number of samples, so that 0.6 of 10 samples are 6.
constexpr double kRounding = 1e-6;

std::vector<double> numbers_of(const Dataset& dataset, const std::string& column) {
  if (const auto* selected = dynamic_cast<const SelectedSamples*>(&dataset)) {
    const std::vector<double> all = numbers_of(selected->source(), column);
    std::vector<double> own;
    for (int64_t i = 0; i < selected->size(); ++i) {
      own.push_back(all[static_cast<size_t>(selected->row(i))]);
    }
    return own;
  }
  if (const Concatenation* parts = parts_of(dataset)) {
    std::vector<double> all;
    for (const auto& source : parts->sources()) {
      const std::vector<double> own = numbers_of(*source, column);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
  if (const auto* rows = dynamic_cast<const RowNumbers*>(&dataset))
    return rows->row_numbers(column);
  throw DataError(text("'curriculum' by '{}' requires data with columns of numbers", column),
                  "csv, tsv, jsonl, parquet, arrow and hf have them, and texts have 'by: length'");
}

std::vector<double> difficulties(const Dataset& dataset, const std::string& by) {
  if (by != kByLength) return numbers_of(dataset, by);
  const std::vector<int64_t> lengths = lengths_of(dataset);
  if (lengths.empty() && dataset.size() > 0) {
    throw DataError("'curriculum' by 'length' requires data with known sample lengths",
                    "name a column of numbers, or use texts, such as jsonl, csv or parquet");
  }
  return {lengths.begin(), lengths.end()};
}

}  // namespace

double competence(const CurriculumPlan& plan, int64_t step, int64_t steps) {
  if (step >= steps) return 1;
  const double part = static_cast<double>(step) / static_cast<double>(steps);
  const double start = plan.start;
  return plan.pacing == Pacing::kLinear ? start + (1 - start) * part
                                        : std::sqrt(start * start + (1 - start * start) * part);
}

Curriculum::Curriculum(const Dataset& dataset, CurriculumPlan plan, int64_t batch,
                       int64_t steps_per_epoch)
    : plan_(std::move(plan)),
      batch_(batch),
      steps_per_epoch_(steps_per_epoch),
      steps_(static_cast<int64_t>(
          std::ceil(plan_.until * static_cast<double>(plan_.until_epochs ? steps_per_epoch : 1)))) {
  const std::vector<double> difficulty = difficulties(dataset, plan_.by);
  easiest_.resize(difficulty.size());
  std::iota(easiest_.begin(), easiest_.end(), int64_t{0});
  std::stable_sort(easiest_.begin(), easiest_.end(), [&](int64_t a, int64_t b) {
    return difficulty[static_cast<size_t>(a)] < difficulty[static_cast<size_t>(b)];
  });
}

bool Curriculum::restricts(int64_t epoch) const {
  return epoch * steps_per_epoch_ < steps_;
}

std::vector<int64_t> Curriculum::draws(uint64_t seed, int64_t epoch) const {
  const auto size = static_cast<int64_t>(easiest_.size());
  SampleRng rng(kCurriculumStream + seed, static_cast<uint64_t>(epoch), 0);
  // Its first k samples are always the k easiest, in the order that draws have left.
  std::vector<int64_t> pool = easiest_;
  std::vector<int64_t> times(easiest_.size());
  std::vector<int64_t> all;
  all.reserve(easiest_.size());
  for (int64_t step = epoch * steps_per_epoch_; static_cast<int64_t>(all.size()) < size; ++step) {
    const int64_t count = std::min(batch_, size - static_cast<int64_t>(all.size()));
    const double share = competence(plan_, step, steps_) * static_cast<double>(size);
    const int64_t among =
        std::clamp(static_cast<int64_t>(std::ceil(share - kRounding)), count, size);
    for (int64_t i = 0; i < count; ++i) {
      const auto bound = static_cast<uint64_t>(among - i);
      const auto other = static_cast<size_t>(i) + static_cast<size_t>(rng.below(bound));
      std::swap(pool[static_cast<size_t>(i)], pool[other]);
      const int64_t sample = pool[static_cast<size_t>(i)];
      all.push_back(sample + size * times[static_cast<size_t>(sample)]++);
    }
  }
  return all;
}

}  // namespace accel
