#include "data/loader/epoch_sampler.h"

#include <new>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/loader/epoch_order.h"

namespace accel {
namespace {

constexpr size_t kKept = 2;  // prefetching reaches into the next epoch

[[noreturn]] void refuse_order(int64_t samples) {
  throw Error(
      ExitCode::kMemory,
      text("the order of {} samples does not fit into memory: it takes 8 bytes for each", samples),
      "set 'data.loader.shuffle' to false, or train on fewer samples");
}

}  // namespace

EpochSampler::EpochSampler(std::shared_ptr<const Dataset> dataset, const SamplerOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  if (options_.block > 0 && dynamic_cast<const EpochOrder*>(dataset_.get())) {
    throw DataError("'shuffle_block_size' has no effect on datasets with a 'weight'",
                    "leave one of the two out");
  }
  if (!options_.curriculum.by.empty()) {
    if (dynamic_cast<const EpochOrder*>(dataset_.get())) {
      throw DataError("'curriculum' has no effect on datasets with a 'weight'",
                      "leave one of the two out");
    }
    curriculum_.emplace(*dataset_, options_.curriculum, options_.batch, options_.steps_per_epoch);
  }
  if (options_.length_group == 0) return;
  lengths_ = lengths_of(*dataset_);
  if (lengths_.empty() && dataset_->size() > 0) {
    throw DataError("'group_by_length' requires data with known sample lengths",
                    "leave it out, or use texts, such as jsonl, csv or parquet");
  }
}

int64_t EpochSampler::size() const {
  const auto* ordered = dynamic_cast<const EpochOrder*>(dataset_.get());
  return ordered ? ordered->epoch_size() : dataset_->size();
}

std::vector<int64_t> EpochSampler::order(int64_t epoch) const {
  const auto* ordered = dynamic_cast<const EpochOrder*>(dataset_.get());
  if (ordered) return ordered->draws(options_.seed, epoch, options_.shuffle);
  const int64_t size = dataset_->size();
  try {
    if (curriculum_ && curriculum_->restricts(epoch))
      return curriculum_->draws(options_.seed, epoch);
    if (sampler_seed_) return permutation(size, *sampler_seed_);
    return options_.block > 0 ? block_permutation(size, options_.block, options_.seed, epoch)
                              : epoch_permutation(size, options_.seed, epoch);
  } catch (const std::bad_alloc&) {
    refuse_order(size);
  } catch (const std::length_error&) {
    refuse_order(size);
  }
}

SampleOrder EpochSampler::make(int64_t epoch) const {
  const bool ordered = dynamic_cast<const EpochOrder*>(dataset_.get());
  if (!ordered && !options_.shuffle) return SampleOrder();
  if (options_.length_group == 0) return SampleOrder(order(epoch));
  return SampleOrder(grouped_by_length(order(epoch), lengths_, options_.length_group));
}

void EpochSampler::set_sampler_seed(uint64_t seed) {
  if (!options_.shuffle || dynamic_cast<const EpochOrder*>(dataset_.get())) {
    throw std::logic_error("a sampler's seed is set for an order that no RandomSampler gives");
  }
  const std::lock_guard lock(mutex_);
  sampler_seed_ = seed;
  kept_.clear();
}

SampleOrder EpochSampler::of(int64_t epoch) {
  std::shared_future<SampleOrder> draws;
  {
    const std::lock_guard lock(mutex_);
    auto found = kept_.find(epoch);
    if (found == kept_.end()) {
      // Deferred: computed by the first caller outside the lock; others wait only for this epoch.
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
