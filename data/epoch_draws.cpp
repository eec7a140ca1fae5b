#include "data/epoch_draws.h"

#include <utility>

#include "core/error.h"
#include "data/epoch_order.h"
#include "data/length_groups.h"
#include "data/permutation.h"

namespace accel {
namespace {

constexpr size_t kKept = 2;  // prefetching reaches into the next epoch

}  // namespace

EpochDraws::EpochDraws(std::shared_ptr<const Dataset> dataset, uint64_t seed, bool shuffle,
                       int64_t group_by_length)
    : dataset_(std::move(dataset)),
      seed_(seed),
      shuffle_(shuffle),
      group_by_length_(group_by_length) {
  if (group_by_length_ == 0) return;
  lengths_ = lengths_of(*dataset_);
  if (lengths_.empty() && dataset_->size() > 0) {
    throw DataError("'group_by_length' takes data that knows the lengths of its samples",
                    "leave it out, or use texts, such as those of jsonl, csv or parquet");
  }
}

int64_t EpochDraws::size() const {
  const auto* ordered = dynamic_cast<const EpochOrder*>(dataset_.get());
  return ordered ? ordered->epoch_size() : dataset_->size();
}

std::vector<int64_t> EpochDraws::order(int64_t epoch) const {
  const auto* ordered = dynamic_cast<const EpochOrder*>(dataset_.get());
  return ordered ? ordered->draws(seed_, epoch, shuffle_)
                 : epoch_permutation(dataset_->size(), seed_, epoch);
}

Draws EpochDraws::make(int64_t epoch) const {
  const bool ordered = dynamic_cast<const EpochOrder*>(dataset_.get());
  if (!ordered && !shuffle_) return Draws();
  if (group_by_length_ == 0) return Draws(order(epoch));
  return Draws(grouped_by_length(order(epoch), lengths_, group_by_length_));
}

Draws EpochDraws::of(int64_t epoch) {
  std::shared_future<Draws> draws;
  {
    const std::lock_guard lock(mutex_);
    auto found = kept_.find(epoch);
    if (found == kept_.end()) {
      // Deferred: made outside the lock, by the first who needs it; the others wait for it alone.
      auto made = std::async(std::launch::deferred, [this, epoch] { return make(epoch); });
      found = kept_.emplace(epoch, made.share()).first;
    }
    draws = found->second;
    while (kept_.size() > kKept) {
      kept_.erase(kept_.begin()->first == epoch ? std::prev(kept_.end()) : kept_.begin());
    }
  }
  return draws.get();
}

}  // namespace accel
