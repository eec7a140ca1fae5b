// Several datasets as one.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/dataset.h"
#include "data/concatenation.h"
#include "data/epoch_order.h"

namespace accel {

/// One entry of a recipe's list of datasets.
struct DataPart {
  std::shared_ptr<const Dataset> dataset;
  std::optional<double> weight;  ///< share of the samples drawn, relative to the others'
  std::optional<int64_t> limit;  ///< use at most the first so many samples
};

/// The dataset that a recipe's entries make up: the only one itself; without weights the entries
/// one after another, each sample once an epoch; with weights a Mixture. Throws DataError when the
/// shapes differ, when some entries have a weight and others none, or when a weight is too small
/// to give its dataset a sample.
std::shared_ptr<const Dataset> combine(std::vector<DataPart> parts);

/// Datasets drawn from in fixed proportions, spread evenly: any stretch of n draws holds each
/// source's share of n to within a few samples. An epoch is as long as all sources together. Each
/// source goes on where the last epoch left it and is shuffled anew whenever it is used up, so a
/// long one is seen whole however small its weight.
class Mixture final : public Dataset, public EpochOrder, public LeavesOut, public KnowsLengths {
 public:
  /// `weights` are positive and as many as `sources`; all sources have the same shape.
  Mixture(std::vector<std::shared_ptr<const Dataset>> sources, const std::vector<double>& weights);

  int64_t size() const override { return samples_.size(); }
  Sample sample(int64_t index) const override { return samples_.sample(index); }
  DataShape shape() const override { return samples_.shape(); }
  std::string fingerprint() const override;
  int64_t left_out() const override { return samples_.left_out(); }
  bool lengths_known() const override { return samples_.lengths_known(); }
  int64_t length(int64_t index) const override { return samples_.length(index); }

  int64_t epoch_size() const override { return size(); }
  std::vector<int64_t> draws(uint64_t seed, int64_t epoch, bool shuffle) const override;

  /// Draws from each source in every epoch; they sum to epoch_size().
  const std::vector<int64_t>& counts() const { return counts_; }
  const Concatenation& parts() const { return samples_; }

 private:
  Concatenation samples_;
  std::vector<int64_t> counts_;
};

/// The sources of `dataset`, where it is made of several; else null.
const Concatenation* parts_of(const Dataset& dataset);

}  // namespace accel
