// Datasets one after another, and what they must agree on.
#pragma once

#include <memory>
#include <vector>

#include "core/dataset.h"
#include "data/bad_samples.h"
#include "data/length_groups.h"

namespace accel {

/// Throws DataError naming the first dataset whose samples are not like those of the first one.
void require_same_shape(const std::vector<std::shared_ptr<const Dataset>>& sources);

/// The samples of every source in turn.
class Concatenation final : public Dataset, public LeavesOut, public KnowsLengths {
 public:
  /// All sources have the same shape.
  explicit Concatenation(std::vector<std::shared_ptr<const Dataset>> sources);

  int64_t size() const override { return offsets_.back(); }
  Sample sample(int64_t index) const override;
  DataShape shape() const override { return sources_.front()->shape(); }
  std::string fingerprint() const override;
  int64_t left_out() const override;
  bool lengths_known() const override;
  int64_t length(int64_t index) const override;

  const std::vector<std::shared_ptr<const Dataset>>& sources() const { return sources_; }
  /// Which source sample `index` is of.
  size_t source_of(int64_t index) const;
  /// The index of the source's first sample.
  int64_t offset(size_t source) const { return offsets_[source]; }

 private:
  std::vector<std::shared_ptr<const Dataset>> sources_;
  std::vector<int64_t> offsets_;  // of each source, and the end
};

}  // namespace accel
