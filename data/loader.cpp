#include "data/loader.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include "core/error.h"
#include "data/column_batch.h"
#include "data/mixture.h"

namespace accel {
namespace {

constexpr uint64_t kFnvOffset = 0xcbf29ce484222325ULL;
constexpr uint64_t kFnvPrime = 0x100000001b3ULL;

void require_sane(const LoaderOptions& options) {
  const bool sane = options.batch > 0 && options.micro_batch > 0 && options.workers >= 0 &&
                    options.prefetch > 0 && options.rank >= 0 && options.rank < options.world &&
                    options.batch % (options.micro_batch * options.world) == 0 &&
                    (options.shuffle || !options.group_by_length);
  if (!sane) throw std::logic_error("a loader's sizes do not fit together");
}

/// value % size, which is rarely needed and slow.
int64_t wrapped(int64_t value, int64_t size) {
  return value < size ? value : value % size;
}

[[noreturn]] void throw_too_few(int64_t size, const LoaderOptions& options) {
  std::string message = "the dataset holds " + std::to_string(size) +
                        " samples, fewer than one batch of " + std::to_string(options.batch);
  if (options.world > 1) message += " over " + std::to_string(options.world) + " ranks";
  throw DataError(message, "lower 'batch' or set 'drop_last' to false");
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
      columns_(transforms_.empty() ? dataset_->columns() : std::nullopt),
      options_(options),
      ids_(dataset_->size()),
      draws_(dataset_, options.seed, options.shuffle, options.group_by_length ? options.batch : 0) {
  require_sane(options_);
  padding_ = shape().padding;
  const int64_t size = draws_.size();
  if (size == 0) throw DataError("the dataset holds no samples");
  samples_per_epoch_ = options_.drop_last ? size - size % options_.batch : size;
  if (samples_per_epoch_ == 0) throw_too_few(size, options_);
  steps_per_epoch_ = (samples_per_epoch_ - 1) / options_.batch + 1;
  share_out();
  seek(0, 0);
}

Loader::~Loader() = default;

void Loader::share_out() {
  plan_ = {.samples = samples_per_epoch_,
           .micro_batch = options_.micro_batch,
           .world = options_.world,
           .sharing = options_.sharing,
           .even_batches = options_.even_batches && options_.world > 1};
  rounds_per_window_ = options_.batch / (options_.micro_batch * options_.world);
  rounds_per_epoch_ = rounds_of(plan_);
  batches_per_epoch_ = batches_of(plan_, options_.rank);
}

void Loader::set_micro_batch(int64_t samples) {
  prefetcher_.reset();
  options_.micro_batch = samples;
  require_sane(options_);
  share_out();
}

DataShape Loader::shape() const {
  return transforms_.empty() ? dataset_->shape() : transforms_.back()->shape();
}

std::vector<int64_t> Loader::drawn(int64_t epoch, int64_t steps) {
  const Concatenation* const parts = parts_of(*dataset_);
  if (!parts) return {};
  std::vector<int64_t> counts(parts->sources().size());
  const Draws draws = draws_.of(epoch);
  const int64_t end = std::min(steps * options_.batch, samples_per_epoch_);
  for (int64_t i = 0; i < end; ++i) ++counts[parts->source_of(wrapped(draws[i], ids_))];
  return counts;
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

Window Loader::next(Window done) {
  if (!has_next()) throw std::logic_error("a window is taken beyond the end of the epoch");
  const auto start = std::chrono::steady_clock::now();
  const int64_t first = step_ * rounds_per_window_;
  const int64_t last = std::min(first + rounds_per_window_, batches_per_epoch_);
  Window window{.micro_batches = std::move(done.micro_batches),
                .epoch = epoch_,
                .step = step_,
                .digest = kFnvOffset};
  if (options_.workers > 0) window.micro_batches.clear();  // they have memory of their own
  window.micro_batches.resize(static_cast<size_t>(std::max<int64_t>(last - first, 0)));
  for (int64_t i = first; i < last; ++i) {
    HostBatch& batch = window.micro_batches[static_cast<size_t>(i - first)];
    batch = take_batch(epoch_ * batches_per_epoch_ + i, std::move(batch));
    batch.part = (i - first) * options_.world + options_.rank;
  }
  account(window);
  if (++step_ == steps_per_epoch_ && options_.repeat) {
    ++epoch_;
    step_ = 0;
  }
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return window;
}

void Loader::account(Window& window) {
  const int64_t first = window.step * rounds_per_window_;
  const int64_t last = std::min(first + rounds_per_window_, rounds_per_epoch_);
  for (int64_t i = first; i < last; ++i) {
    const Round round = round_of(plan_, i);
    window.samples += round.valid;
    window.padded += round.padded;
    window.parts += round.batches;
  }
  // Kept by the loader: workers that are epochs ahead have the shared ones replaced.
  if (accounted_epoch_ != window.epoch) accounted_draws_ = draws_.of(window.epoch);
  accounted_epoch_ = window.epoch;
  const int64_t begin = window.step * options_.batch;
  for (int64_t i = begin; i < begin + window.samples; ++i) {
    const auto id = static_cast<uint64_t>(wrapped(accounted_draws_[i], ids_));
    window.digest = (window.digest ^ id) * kFnvPrime;
  }
}

HostBatch Loader::take_batch(int64_t ticket, HostBatch done) {
  if (options_.workers == 0) return make_batch(ticket, std::move(done));
  if (!prefetcher_) {
    const int64_t ahead = options_.prefetch * rounds_per_window_;
    prefetcher_ =
        std::make_unique<Prefetcher>(PrefetchPlan{.workers = options_.workers,
                                                  .ahead = std::max(ahead, options_.workers),
                                                  .first = ticket,
                                                  .end = end_},
                                     [this](int64_t wanted) { return make_batch(wanted); });
  }
  return prefetcher_->take();
}

HostBatch Loader::make_batch(int64_t ticket, HostBatch done) {
  const int64_t epoch = ticket / batches_per_epoch_;
  const Share share = share_of(plan_, ticket % batches_per_epoch_, options_.rank);
  const Draws draws = draws_.of(epoch);
  const auto draw_of = [&](int64_t j) {
    return draws[wrapped(share.first + j, samples_per_epoch_)];
  };
  HostBatch batch;
  if (columns_) {
    std::vector<int64_t> ids = std::move(done.ids);
    ids.resize(static_cast<size_t>(share.size));
    for (int64_t j = 0; j < share.size; ++j) {
      ids[static_cast<size_t>(j)] = wrapped(draw_of(j), ids_);
    }
    batch = column_batch(*columns_, std::move(ids), std::move(done));
  } else {
    done = {};  // its blocks serve again
    Collator collator(share.size, padding_);
    for (int64_t j = 0; j < share.size; ++j) {
      collator.add(make_sample(epoch, draw_of(j)), wrapped(draw_of(j), ids_));
    }
    batch = std::move(collator).finish();
  }
  batch.padded = share.size - share.valid;
  return batch;
}

Sample Loader::make_sample(int64_t epoch, int64_t draw) const {
  const int64_t id = wrapped(draw, ids_);
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
