#include "parallel/shared_memory/block_exchange.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <ctime>

namespace accel {
namespace {

using Clock = std::chrono::steady_clock;

/// Attempts before a rank sleeps, some 20 microseconds, when every rank has a core.
constexpr int kSpins = 500;
/// How often a rank that sleeps verifies that the other still runs.
constexpr long kWakeNanoseconds = 50'000'000;
constexpr int64_t kTrimEvery = 256;
constexpr size_t kLeastTrim = size_t{16} << 20;

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

static_assert(std::atomic<uint32_t>::is_always_lock_free &&
              std::atomic<uint64_t>::is_always_lock_free);

/// Sleeps while `word` is `value`, at most kWakeNanoseconds.
void sleep_on(std::atomic<uint32_t>& word, uint32_t value) {
  const timespec limit = {0, kWakeNanoseconds};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

}  // namespace

/// At the start of a segment.
struct BlockExchange::Header {
  uint64_t key;                   ///< SharedSegment's
  std::atomic<uint32_t> changes;  ///< a counter, on which the others sleep
  std::atomic<uint32_t> sleepers;
};

struct BlockExchange::Slot {
  std::atomic<uint64_t> next;  ///< number of its block + 1; 0: none yet
  uint64_t offset;
  uint64_t bytes;
  std::atomic<int64_t> readers;  ///< that have not released it
};

BlockExchange::BlockExchange(int64_t rank, int64_t world, std::chrono::milliseconds timeout)
    : rank_(rank),
      timeout_(timeout),
      spins_(available_cores() >= world ? kSpins : 0),
      segments_(static_cast<size_t>(world)) {
  const size_t lanes = static_cast<size_t>(world) + 1;
  segments_[static_cast<size_t>(rank)] =
      std::make_unique<SharedSegment>(sizeof(Header) + lanes * kSlots * sizeof(Slot));
}

BlockExchange::~BlockExchange() {
  own().close();
  wake(rank_);
}

void BlockExchange::connect(const std::vector<std::string>& names) {
  const size_t lanes = segments_.size() + 1;
  for (size_t r = 0; r < segments_.size(); ++r) {
    if (r == static_cast<size_t>(rank_)) continue;
    segments_[r] =
        std::make_unique<SharedSegment>(sizeof(Header) + lanes * kSlots * sizeof(Slot), names[r]);
  }
}

BlockExchange::Header& BlockExchange::header(int64_t rank) const {
  return *reinterpret_cast<Header*>(segments_[static_cast<size_t>(rank)]->header());
}

BlockExchange::Slot& BlockExchange::slot(int64_t rank, int64_t lane, uint64_t number) const {
  auto* slots =
      reinterpret_cast<Slot*>(segments_[static_cast<size_t>(rank)]->header() + sizeof(Header));
  return slots[static_cast<uint64_t>(lane) * kSlots + number % kSlots];
}

std::byte* BlockExchange::allocate(size_t bytes) {
  reclaim();
  if (++allocations_ == kTrimEvery) trim();
  drafted_ = allocator_.allocate(bytes);
  drafted_bytes_ = bytes;
  peak_ = std::max(peak_, allocator_.used());
  if (allocator_.end() > own().bytes()) own().resize(std::max(allocator_.end(), 2 * own().bytes()));
  return own().data(drafted_, bytes);
}

void BlockExchange::publish(int64_t lane, uint64_t number, int64_t readers) {
  Slot& target = slot(rank_, lane, number);
  wait_for(rank_, [&] { return target.readers.load(std::memory_order_acquire) == 0; });
  target.offset = drafted_;
  target.bytes = drafted_bytes_;
  target.readers.store(readers, std::memory_order_relaxed);
  target.next.store(number + 1, std::memory_order_release);
  published_.push_back({&target, drafted_});
  wake(rank_);
}

bool BlockExchange::has(int64_t from, int64_t lane, uint64_t number) const {
  return slot(from, lane, number).next.load(std::memory_order_acquire) == number + 1;
}

std::span<std::byte> BlockExchange::await(int64_t from, int64_t lane, uint64_t number) {
  wait_for(from, [&] { return has(from, lane, number); });
  const Slot& found = slot(from, lane, number);
  return {segments_[static_cast<size_t>(from)]->data(found.offset, found.bytes), found.bytes};
}

void BlockExchange::release(int64_t from, int64_t lane, uint64_t number) {
  if (slot(from, lane, number).readers.fetch_sub(1, std::memory_order_acq_rel) == 1) wake(from);
}

void BlockExchange::reclaim() {
  // A slot that is used again has been released before: publish() waits for that.
  std::erase_if(published_, [this](const Published& block) {
    if (block.slot->readers.load(std::memory_order_acquire) != 0) return false;
    allocator_.free(block.offset);
    return true;
  });
}

void BlockExchange::trim() {
  if (allocator_.used() == 0 && own().bytes() > 2 * peak_ + kLeastTrim) own().resize(peak_);
  allocations_ = 0;
  peak_ = allocator_.used();
}

void BlockExchange::wake(int64_t rank) const {
  Header& at = header(rank);
  at.changes.fetch_add(1);
  if (at.sleepers.load() == 0) return;
  syscall(SYS_futex, &at.changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::optional<int64_t> BlockExchange::lost_rank(int64_t waited_for) const {
  for (int64_t other = 0; other < world(); ++other) {
    if (other == rank_ || (waited_for != rank_ && other != waited_for)) continue;
    if (!segments_[static_cast<size_t>(other)]->is_open()) return other;
  }
  return std::nullopt;
}

template <class Condition>
void BlockExchange::wait_for(int64_t rank, Condition holds) const {
  for (int i = 0; i <= spins_; ++i) {
    if (holds()) return;
    pause_core();
  }
  Header& at = header(rank);
  const auto end = Clock::now() + timeout_;
  while (true) {
    const uint32_t seen = at.changes.load();
    if (holds()) return;
    at.sleepers.fetch_add(1);
    sleep_on(at.changes, seen);
    at.sleepers.fetch_sub(1);
    // Asked first: what a rank has published before it left counts.
    const std::optional<int64_t> lost = lost_rank(rank);
    if (holds()) return;
    if (lost) throw LostPeer(*lost);
    if (Clock::now() >= end) {
      throw std::runtime_error("timed out waiting for rank " + std::to_string(rank));
    }
  }
}

}  // namespace accel
