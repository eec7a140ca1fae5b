#include "data/loader/loader.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "core/api/target_sequences.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "data/loader/host_batch.h"
#include "data/loader/mixture.h"
#include "data/loader/read_ahead.h"
#include "data/loader/selected_samples.h"

namespace accel {

/// Makes batch `ticket`. Called concurrently.
using MakeBatch = std::function<HostBatch(int64_t ticket)>;

/// Range of tickets and resources.
struct PrefetchPlan {
  int64_t workers = 1;  ///< threads
  int64_t ahead = 1;    ///< maximum of batches that are being made or not yet taken
  int64_t first = 0;    ///< first ticket
  int64_t end = 0;      ///< exclusive
};

/// Worker threads that make batches ahead of their use. Joins the threads when destroyed. take() is
/// for one thread.
class Prefetcher {
 public:
  Prefetcher(const PrefetchPlan& plan, MakeBatch make);
  ~Prefetcher();

  /// The next batch, in ticket order. Rethrows the exception of its worker.
  HostBatch take();

 private:
  struct Slot {
    bool ready = false;
    HostBatch batch;
    std::exception_ptr error;
  };

  void work();
  Slot& slot(int64_t ticket) { return slots_[static_cast<size_t>(ticket) % slots_.size()]; }

  const MakeBatch make_;
  const int64_t end_;
  std::mutex mutex_;  // guards all members below except threads_
  std::condition_variable room_;
  std::condition_variable ready_;
  std::vector<Slot> slots_;
  int64_t claimed_;  // next ticket to make
  int64_t taken_;    // next ticket to return
  bool stop_ = false;
  std::vector<std::jthread> threads_;
};

Prefetcher::Prefetcher(const PrefetchPlan& plan, MakeBatch make)
    : make_(std::move(make)),
      end_(plan.end),
      slots_(static_cast<size_t>(plan.ahead)),
      claimed_(plan.first),
      taken_(plan.first) {
  for (int64_t i = 0; i < plan.workers; ++i) threads_.emplace_back([this] { work(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  room_.notify_all();
}

HostBatch Prefetcher::take() {
  std::unique_lock lock(mutex_);
  if (taken_ >= end_) throw std::logic_error("batches are taken beyond the last one");
  Slot& next = slot(taken_);
  ready_.wait(lock, [&] { return next.ready; });
  Slot done = std::exchange(next, Slot{});
  ++taken_;
  lock.unlock();
  room_.notify_one();
  if (done.error) std::rethrow_exception(done.error);
  return std::move(done.batch);
}

void Prefetcher::work() {
  const auto ahead = static_cast<int64_t>(slots_.size());
  while (true) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return stop_ || claimed_ >= end_ || claimed_ < taken_ + ahead; });
    if (stop_ || claimed_ >= end_) return;
    const int64_t ticket = claimed_++;
    lock.unlock();
    Slot made{.ready = true, .batch = {}, .error = {}};
    try {
      made.batch = make_(ticket);
    } catch (...) {
      made.error = std::current_exception();
    }
    lock.lock();
    slot(ticket) = std::move(made);
    lock.unlock();
    ready_.notify_one();
  }
}

namespace {

constexpr uint64_t kFnvOffset = 0xcbf29ce484222325ULL;
constexpr uint64_t kFnvPrime = 0x100000001b3ULL;

void require_sane(const LoaderOptions& options) {
  const bool sane =
      options.batch > 0 && options.micro_batch > 0 && options.workers >= 0 &&
      options.prefetch > 0 && options.rank >= 0 && options.rank < options.world &&
      options.batch % (options.micro_batch * options.world) == 0 &&
      (options.shuffle || (!options.group_by_length && options.curriculum.by.empty()));
  if (!sane) throw std::logic_error("a loader's sizes do not fit together");
}

/// value % size; avoids the slow division in the common case.
int64_t wrapped(int64_t value, int64_t size) {
  return value < size ? value : value % size;
}

/// For an order without locality the dataset is prepared, and its cost is said.
int64_t samples_ahead_of(const Dataset& dataset, const LoaderOptions& options) {
  if (options.shuffle && options.shuffle_block_size == 0) {
    read_singly(dataset);
    if (exceeds_cache(dataset)) {
      warn(
          "the data exceed 'streaming.cache_limit' and are shuffled as a whole, so that each "
          "sample "
          "beyond the cache is a request in every epoch: set 'data.loader.shuffle_block_size', or "
          "raise the limit");
    }
  }
  return samples_ahead(dataset);
}

[[noreturn]] void throw_too_few(int64_t size, const LoaderOptions& options) {
  std::string message =
      text("the dataset holds {} samples, fewer than one batch of {}", size, options.batch);
  if (options.world > 1) message += text(" over {} ranks", options.world);
  throw DataError(message, "lower 'batch' or set 'drop_last' to false");
}

[[noreturn]] void throw_with_sample(const Error& error, int64_t id) {
  const std::string message = text("sample {}: {}", id, error.what());
  if (error.code() == ExitCode::kData) throw DataError(message, error.hint());
  throw Error(error.code(), message, error.hint());
}

}  // namespace

int64_t steps_of_epoch(int64_t samples, int64_t batch, bool drop_last) {
  const int64_t whole = samples / batch;
  return std::max<int64_t>(drop_last || samples % batch == 0 ? whole : whole + 1, 1);
}

Loader::Loader(std::shared_ptr<const Dataset> dataset,
               std::vector<std::unique_ptr<Transform>> transforms, const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      transforms_(std::move(transforms)),
      selection_(dynamic_cast<const SelectedSamples*>(dataset_.get())),
      columns_(!transforms_.empty() ? std::nullopt
               : selection_         ? selection_->source().columns()
                                    : dataset_->columns()),
      options_(options),
      ids_(dataset_->size()),
      draws_(dataset_, {.seed = options.seed,
                        .shuffle = options.shuffle,
                        .block = options.shuffle_block_size,
                        .length_group = options.group_by_length ? options.batch : 0,
                        .curriculum = options.curriculum,
                        .batch = options.batch,
                        .steps_per_epoch = steps_of_epoch(ids_, options.batch, options.drop_last)}),
      reads_ahead_(samples_ahead_of(*dataset_, options) > 0) {
  require_sane(options_);
  const DataShape padded = shape();
  padding_ = padded.padding;
  if (has_target_sequences(padded)) target_length_ = TargetLength::kOwn;
  const int64_t size = draws_.size();
  if (size == 0) throw DataError("the dataset holds no samples");
  samples_per_epoch_ = options_.drop_last ? size - size % options_.batch : size;
  if (samples_per_epoch_ == 0) throw_too_few(size, options_);
  steps_per_epoch_ = steps_of_epoch(size, options_.batch, options_.drop_last);
  share_out();
  seek(0, 0);
}

Loader::~Loader() = default;

void Loader::share_out() {
  plan_ = {.samples = samples_per_epoch_,
           .micro_batch = options_.micro_batch,
           .world = options_.world,
           .sharing = options_.sharing,
           .even_batches = options_.even_batches && options_.world > 1,
           .all_ranks = options_.all_ranks};
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

void Loader::set_sampler_seed(uint64_t seed) {
  prefetcher_.reset();
  draws_.set_sampler_seed(seed);
  accounted_epoch_ = -1;
}

DataShape Loader::shape() const {
  return transforms_.empty() ? dataset_->shape() : transforms_.back()->shape();
}

std::vector<int64_t> Loader::drawn(int64_t epoch, int64_t steps) {
  const Concatenation* const parts = parts_of(*dataset_);
  if (!parts) return {};
  std::vector<int64_t> counts(parts->sources().size());
  const SampleOrder draws = draws_.of(epoch);
  const int64_t end = std::min(steps * options_.batch, samples_per_epoch_);
  for (int64_t i = 0; i < end; ++i) ++counts[parts->source_of(wrapped(draws[i], ids_))];
  return counts;
}

void Loader::seek(int64_t epoch, int64_t step) {
  if (epoch < 0 || step < 0 || step > steps_per_epoch_) {
    throw std::out_of_range(
        text("step {} of epoch {} is outside its {} steps", step, epoch, steps_per_epoch_));
  }
  prefetcher_.reset();
  if (reads_ahead_) accel::forget_ahead(*dataset_);
  announced_ = -1;
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

GlobalBatch Loader::next(GlobalBatch done) {
  if (!has_next()) throw std::logic_error("a global_batch is taken beyond the end of the epoch");
  const int64_t first = step_ * rounds_per_window_;
  const int64_t last = std::min(first + rounds_per_window_, batches_per_epoch_);
  GlobalBatch global_batch{.micro_batches = std::move(done.micro_batches),
                           .epoch = epoch_,
                           .step = step_,
                           .digest = kFnvOffset};
  if (options_.workers > 0) global_batch.micro_batches.clear();  // workers allocate batches
  global_batch.micro_batches.resize(static_cast<size_t>(std::max<int64_t>(last - first, 0)));
  for (int64_t i = first; i < last; ++i) {
    HostBatch& batch = global_batch.micro_batches[static_cast<size_t>(i - first)];
    batch = take_batch(epoch_ * batches_per_epoch_ + i, std::move(batch));
    batch.micro_batch_index = (i - first) * options_.world + options_.rank;
  }
  account(global_batch);
  if (++step_ == steps_per_epoch_ && options_.repeat) {
    ++epoch_;
    step_ = 0;
  }
  return global_batch;
}

void Loader::account(GlobalBatch& global_batch) {
  const int64_t first = global_batch.step * rounds_per_window_;
  const int64_t last = std::min(first + rounds_per_window_, rounds_per_epoch_);
  for (int64_t i = first; i < last; ++i) {
    const Round round = round_of(plan_, i);
    global_batch.samples += round.valid;
    global_batch.padded += round.padded;
    global_batch.num_micro_batches += round.batches;
  }
  // A copy, because workers that are epochs ahead evict the shared order.
  if (accounted_epoch_ != global_batch.epoch) accounted_draws_ = draws_.of(global_batch.epoch);
  accounted_epoch_ = global_batch.epoch;
  const int64_t begin = global_batch.step * options_.batch;
  for (int64_t i = begin; i < begin + global_batch.samples; ++i) {
    const auto id = static_cast<uint64_t>(wrapped(accounted_draws_[i], ids_));
    global_batch.digest = (global_batch.digest ^ id) * kFnvPrime;
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

std::vector<int64_t> Loader::ids_of(int64_t ticket) {
  const Share share = share_of(plan_, ticket % batches_per_epoch_, options_.rank);
  const SampleOrder draws = draws_.of(ticket / batches_per_epoch_);
  std::vector<int64_t> ids(static_cast<size_t>(share.size));
  for (int64_t j = 0; j < share.size; ++j) {
    ids[static_cast<size_t>(j)] =
        wrapped(draws[wrapped(share.first + j, samples_per_epoch_)], ids_);
  }
  return ids;
}

/// Announces the batches after `ticket` to a dataset that reads ahead, each once.
void Loader::announce(int64_t ticket) {
  const int64_t samples = reads_ahead_ ? samples_ahead(*dataset_) : 0;
  if (samples == 0) return;
  const int64_t batches = (samples - 1) / options_.micro_batch + 1;
  const std::lock_guard lock(announcing_);
  // Not beyond the next epoch: the sampler keeps two orders.
  const int64_t end = std::min(
      {end_, ticket + 1 + batches, (ticket / batches_per_epoch_ + 2) * batches_per_epoch_});
  announced_ = std::max(announced_, ticket);  // none was while the samples were cached
  for (; announced_ < end; ++announced_) accel::read_ahead(*dataset_, ids_of(announced_));
}

HostBatch Loader::make_batch(int64_t ticket, HostBatch done) {
  announce(ticket);
  const int64_t epoch = ticket / batches_per_epoch_;
  const Share share = share_of(plan_, ticket % batches_per_epoch_, options_.rank);
  const SampleOrder draws = draws_.of(epoch);
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
    batch = gather(std::move(ids), std::move(done));
  } else {
    done = {};  // frees its blocks for reuse
    Collator collator(share.size, padding_, target_length_);
    for (int64_t j = 0; j < share.size; ++j) {
      collator.add(make_sample(epoch, draw_of(j)), wrapped(draw_of(j), ids_));
    }
    batch = std::move(collator).finish();
  }
  batch.padded = share.size - share.valid;
  return batch;
}

/// The samples `ids` of the dataset from the columns.
HostBatch Loader::gather(std::vector<int64_t> ids, HostBatch done) const {
  if (!selection_) return column_batch(*columns_, std::move(ids), std::move(done));
  std::vector<int64_t> rows(ids.size());
  std::transform(ids.begin(), ids.end(), rows.begin(),
                 [this](int64_t id) { return selection_->row(id); });
  HostBatch batch = column_batch(*columns_, std::move(rows), std::move(done));
  batch.ids = std::move(ids);
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
