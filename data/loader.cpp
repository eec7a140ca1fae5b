#include "data/loader.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include "core/error.h"

namespace accel {
namespace {

constexpr uint64_t kFnvOffset = 0xcbf29ce484222325ULL;
constexpr uint64_t kFnvPrime = 0x100000001b3ULL;

void require_sane(const LoaderOptions& options) {
  const bool sane = options.batch > 0 && options.micro_batch > 0 && options.workers >= 0 &&
                    options.prefetch > 0 && options.batch % options.micro_batch == 0;
  if (!sane) throw std::logic_error("a loader's sizes do not fit together");
  if (options.world != 1 || options.rank != 0) {
    throw std::logic_error("a loader gives its samples to one rank only");
  }
}

[[noreturn]] void throw_with_sample(const Error& error, int64_t id) {
  const std::string message = "sample " + std::to_string(id) + ": " + error.what();
  if (error.code() == ExitCode::kData) throw DataError(message, error.hint());
  throw Error(error.code(), message, error.hint());
}

}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset,
               std::vector<std::unique_ptr<Transform>> transforms, const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      transforms_(std::move(transforms)),
      options_(options),
      draws_(dataset_, options.seed, options.shuffle) {
  require_sane(options_);
  const int64_t size = draws_.size();
  if (size == 0) throw DataError("the dataset holds no samples");
  samples_per_epoch_ = options_.drop_last ? size - size % options_.batch : size;
  if (samples_per_epoch_ == 0) {
    throw DataError("the dataset holds " + std::to_string(size) +
                        " samples, fewer than one batch of " + std::to_string(options_.batch),
                    "lower 'batch' or set 'drop_last' to false");
  }
  steps_per_epoch_ = (samples_per_epoch_ - 1) / options_.batch + 1;
  batches_per_epoch_ = (samples_per_epoch_ - 1) / options_.micro_batch + 1;
  seek(0, 0);
}

Loader::~Loader() = default;

DataShape Loader::shape() const {
  return transforms_.empty() ? dataset_->shape() : transforms_.back()->shape();
}

void Loader::seek(int64_t epoch, int64_t step) {
  if (epoch < 0 || step < 0 || step > steps_per_epoch_) {
    throw std::out_of_range("step " + std::to_string(step) + " of epoch " + std::to_string(epoch) +
                            " is not one of " + std::to_string(steps_per_epoch_));
  }
  prefetcher_.reset();
  epoch_ = epoch;
  step_ = step;
  if (options_.repeat && step_ == steps_per_epoch_) {
    ++epoch_;
    step_ = 0;
  }
  end_ = options_.repeat ? std::numeric_limits<int64_t>::max() : (epoch + 1) * batches_per_epoch_;
}

bool Loader::has_next() const {
  return options_.repeat || step_ < steps_per_epoch_;
}

Window Loader::next() {
  if (!has_next()) throw std::logic_error("a window is taken beyond the end of the epoch");
  const auto start = std::chrono::steady_clock::now();
  const int64_t per_window = options_.batch / options_.micro_batch;
  const int64_t first = step_ * per_window;
  const int64_t last = std::min(first + per_window, batches_per_epoch_);
  Window window{.micro_batches = {}, .epoch = epoch_, .step = step_, .digest = kFnvOffset};
  for (int64_t i = first; i < last; ++i) {
    window.micro_batches.push_back(take_batch(epoch_ * batches_per_epoch_ + i));
    for (const int64_t id : window.micro_batches.back().ids) {
      window.digest = (window.digest ^ static_cast<uint64_t>(id)) * kFnvPrime;
      ++window.samples;
    }
  }
  if (++step_ == steps_per_epoch_ && options_.repeat) {
    ++epoch_;
    step_ = 0;
  }
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return window;
}

HostBatch Loader::take_batch(int64_t ticket) {
  if (options_.workers == 0) return make_batch(ticket);
  if (!prefetcher_) {
    const int64_t ahead = options_.prefetch * (options_.batch / options_.micro_batch);
    prefetcher_ =
        std::make_unique<Prefetcher>(PrefetchPlan{.workers = options_.workers,
                                                  .ahead = std::max(ahead, options_.workers),
                                                  .first = ticket,
                                                  .end = end_},
                                     [this](int64_t wanted) { return make_batch(wanted); });
  }
  return prefetcher_->take();
}

HostBatch Loader::make_batch(int64_t ticket) {
  const int64_t epoch = ticket / batches_per_epoch_;
  const int64_t first = ticket % batches_per_epoch_ * options_.micro_batch;
  const int64_t last = std::min(first + options_.micro_batch, samples_per_epoch_);
  const Draws draws = draws_.of(epoch);
  const int64_t size = dataset_->size();
  Collator collator(last - first);
  for (int64_t i = first; i < last; ++i) {
    collator.add(make_sample(epoch, draws[i]), draws[i] % size);
  }
  return std::move(collator).finish();
}

Sample Loader::make_sample(int64_t epoch, int64_t draw) const {
  const int64_t id = draw % dataset_->size();
  try {
    Sample sample = dataset_->sample(id);
    SampleRng rng(options_.seed, static_cast<uint64_t>(epoch), static_cast<uint64_t>(draw));
    for (const auto& transform : transforms_) sample = transform->apply(std::move(sample), rng);
    return sample;
  } catch (const Error& error) {
    throw_with_sample(error, id);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw_with_sample(DataError(error.what()), id);
  }
}

}  // namespace accel
