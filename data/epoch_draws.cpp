#include "data/epoch_draws.h"

#include <utility>

#include "data/epoch_order.h"
#include "data/permutation.h"

namespace accel {
namespace {

constexpr size_t kKept = 2;  // prefetching reaches into the next epoch

}  // namespace

EpochDraws::EpochDraws(std::shared_ptr<const Dataset> dataset, uint64_t seed, bool shuffle)
    : dataset_(std::move(dataset)), seed_(seed), shuffle_(shuffle) {}

int64_t EpochDraws::size() const {
  const auto* ordered = dynamic_cast<const EpochOrder*>(dataset_.get());
  return ordered ? ordered->epoch_size() : dataset_->size();
}

Draws EpochDraws::make(int64_t epoch) const {
  if (const auto* ordered = dynamic_cast<const EpochOrder*>(dataset_.get())) {
    return Draws(ordered->draws(seed_, epoch, shuffle_));
  }
  return shuffle_ ? Draws(epoch_permutation(dataset_->size(), seed_, epoch)) : Draws();
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
