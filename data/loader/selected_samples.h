// Selection of samples of a dataset by their indices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "data/datasets/skipped_samples.h"
#include "data/loader/epoch_order.h"
#include "data/loader/read_ahead.h"

namespace accel {

/// The samples of `source` at `rows`.
class SelectedSamples final : public Dataset,
                              public SkipsSamples,
                              public KnowsLengths,
                              public ReadsAhead {
 public:
  /// `rows` must be in range; `selection` completes the fingerprint.
  SelectedSamples(std::shared_ptr<const Dataset> source, std::vector<int64_t> rows,
                  std::string selection);

  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  Sample sample(int64_t index) const override { return source_->sample(row(index)); }
  DataShape shape() const override { return source_->shape(); }
  std::string fingerprint() const override { return source_->fingerprint() + selection_; }
  std::string name(int64_t index) const override { return source_->name(row(index)); }
  int64_t left_out() const override { return accel::left_out(*source_); }
  bool lengths_known() const override;
  int64_t length(int64_t index) const override;
  void read_singly() const override { accel::read_singly(*source_); }
  int64_t samples_ahead() const override { return accel::samples_ahead(*source_); }
  void read_ahead(std::span<const int64_t> samples) const override;
  void forget_ahead() const override { accel::forget_ahead(*source_); }
  bool exceeds_cache() const override { return accel::exceeds_cache(*source_); }

  const Dataset& source() const { return *source_; }
  /// Index in source() of the sample at `index`.
  int64_t row(int64_t index) const { return rows_[static_cast<size_t>(index)]; }

 private:
  const std::shared_ptr<const Dataset> source_;
  const std::vector<int64_t> rows_;
  const std::string selection_;
};

/// The samples of `dataset` at `rows`, which are ascending; `dataset` itself if they are all.
std::shared_ptr<const Dataset> select_samples(std::shared_ptr<const Dataset> dataset,
                                              std::vector<int64_t> rows);

/// All indices of `dataset`.
std::vector<int64_t> all_rows(const Dataset& dataset);

}  // namespace accel
