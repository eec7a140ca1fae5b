#include "runner/launch/status_board.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <new>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/rendezvous/launcher_channel.h"

namespace accel {
namespace {

/// Identifies a slot of this layout.
constexpr uint64_t kBoardMark = 0x31726f6262616363u;

}  // namespace

/// Text of at most `Words` * 8 - 1 bytes. A reader reads it whole or, if the writer died halfway,
/// mixed.
template <size_t Words>
class SharedText {
 public:
  void write(const char* text) noexcept {
    for (std::atomic<uint64_t>& word : words_) {
      uint64_t bytes = 0;
      for (size_t i = 0; i < 8 && *text != 0 && !(&word == &words_.back() && i == 7); ++i, ++text) {
        bytes |= uint64_t{static_cast<unsigned char>(*text)} << (8 * i);
      }
      // A reader that sees it then sees the odd version that was stored before.
      word.store(bytes, std::memory_order_release);
    }
  }

  std::string read() const {
    std::string text;
    for (const std::atomic<uint64_t>& word : words_) {
      const uint64_t bytes = word.load(std::memory_order_acquire);
      for (size_t i = 0; i < 8; ++i) {
        const char letter = static_cast<char>(bytes >> (8 * i));
        if (letter == 0) return text;
        text += letter;
      }
    }
    return text;
  }

 private:
  std::array<std::atomic<uint64_t>, Words> words_;
};

/// A sequence lock: odd while its writer is at work; readers retry until it was even and equal
/// before and after.
class Version {
 public:
  void begin() noexcept { count_.store(value() | 1, std::memory_order_relaxed); }
  void end() noexcept { count_.store((value() | 1) + 1, std::memory_order_release); }

  template <typename Read>
  void read(Read read) const {
    constexpr int kTries = 1000;  // then the writer is dead, or writes without a pause
    for (int i = 0; i < kTries; ++i) {
      const uint32_t before = count_.load(std::memory_order_acquire);
      read();
      if (before % 2 == 0 && before == value()) return;
      if (i % 100 == 99) ::sched_yield();  // the writer may need this core
    }
  }

 private:
  uint32_t value() const noexcept { return count_.load(std::memory_order_relaxed); }

  std::atomic<uint32_t> count_;
};

constexpr size_t words_for(size_t letters) {
  return letters / 8 + 1;
}

enum FailState : uint32_t { kNoFailure, kFailing, kFailed };

/// Zeros are an empty slot, so fresh memory needs no set-up: numbers that may be -1 are one higher.
struct BoardSlot {
  std::atomic<uint64_t> mark;
  std::atomic<int64_t> pid, step_after, first_after, heartbeat_ns;

  Version collective_version;
  std::atomic<uint32_t> inside;
  std::atomic<int64_t> sequence_after;
  SharedText<words_for(BoardWriter::kLongestName)> collective;

  Version phase_version;
  SharedText<words_for(BoardWriter::kLongestPhase)> phase;

  std::atomic<uint32_t> fail_state;
  std::atomic<int32_t> exit_code;
  SharedText<words_for(BoardWriter::kLongestError)> error;

  void beat() noexcept { heartbeat_ns.store(steady_now_ns(), std::memory_order_relaxed); }
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes cannot share a lock");

namespace {

constexpr size_t kSlotBytes = (sizeof(BoardSlot) + 63) / 64 * 64;  // no false sharing between ranks

[[noreturn]] void no_memory(const char* operation) {
  throw Error(ExitCode::kMemory,
              text("cannot {} the status board: {}", operation, std::strerror(errno)));
}

}  // namespace

int64_t steady_now_ns() noexcept {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

BoardMemory::BoardMemory(int fd, size_t bytes) : bytes_(bytes) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (start == MAP_FAILED) no_memory("map");
  start_ = start;
}

BoardMemory::~BoardMemory() {
  if (start_) ::munmap(start_, bytes_);
}

BoardMemory::BoardMemory(BoardMemory&& from) noexcept
    : start_(std::exchange(from.start_, nullptr)), bytes_(from.bytes_) {}

BoardMemory& BoardMemory::operator=(BoardMemory&& from) noexcept {
  std::swap(start_, from.start_);
  std::swap(bytes_, from.bytes_);
  return *this;
}

BoardSlot* BoardMemory::slot(int64_t index) const {
  // Zeroed memory is a valid initial state of the atomics, in every process that maps it.
  return std::launder(reinterpret_cast<BoardSlot*>(static_cast<char*>(start_) +
                                                   static_cast<size_t>(index) * kSlotBytes));
}

BoardWriter::BoardWriter() : memory_(-1, kSlotBytes), slot_(memory_.slot(0)) {}

BoardWriter::BoardWriter(int fd, int64_t local_rank) : shared_(true) {
  struct stat context = {};
  const auto needed = static_cast<off_t>((local_rank + 1) * static_cast<int64_t>(kSlotBytes));
  if (local_rank >= 0 && ::fstat(fd, &context) == 0 && context.st_size >= needed) {
    memory_ = BoardMemory(fd, static_cast<size_t>(needed));
    slot_ = memory_.slot(local_rank);
    if (slot_->mark.load() == kBoardMark) {
      slot_->pid.store(::getpid());
      slot_->beat();
      return;
    }
  }
  throw Error(ExitCode::kRecipe,
              text("file descriptor {} is not a status board with a slot for local rank {}", fd,
                   local_rank),
              text("only accel-run's launcher sets '{}': unset it", kBoardVariable));
}

BoardWriter BoardWriter::open(const EnvironmentLookup& lookup) {
  const auto number = lookup(kBoardVariable);
  if (!number) return BoardWriter();
  int fd = -1;
  int64_t slot = -1;
  const std::string local = lookup("LOCAL_RANK").value_or("");
  std::from_chars(number->data(), number->data() + number->size(), fd);
  std::from_chars(local.data(), local.data() + local.size(), slot);
  BoardWriter writer(fd, slot);
  ::close(fd);
  return writer;
}

void BoardWriter::step(int64_t step) noexcept {
  slot_->step_after.store(step + 1, std::memory_order_relaxed);
  int64_t none = 0;
  slot_->first_after.compare_exchange_strong(none, step + 1, std::memory_order_relaxed);
  slot_->beat();
}

void BoardWriter::enter(const char* name, int64_t sequence) noexcept {
  slot_->collective_version.begin();
  slot_->sequence_after.store(sequence + 1, std::memory_order_release);
  slot_->inside.store(1, std::memory_order_release);
  slot_->collective.write(name);
  slot_->collective_version.end();
  slot_->beat();
}

void BoardWriter::leave() noexcept {
  slot_->inside.store(0, std::memory_order_relaxed);
  slot_->beat();
}

void BoardWriter::phase(const char* name) noexcept {
  slot_->phase_version.begin();
  slot_->phase.write(name);
  slot_->phase_version.end();
  slot_->beat();
}

void BoardWriter::fail(int exit_code, const char* text) noexcept {
  uint32_t expected = kNoFailure;
  if (!slot_->fail_state.compare_exchange_strong(expected, kFailing)) return;
  slot_->exit_code.store(exit_code, std::memory_order_relaxed);
  slot_->error.write(text);
  slot_->fail_state.store(kFailed, std::memory_order_release);
}

Board::Board(int64_t slots)
    : fd_(::memfd_create("accel-run-board", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  const size_t bytes = static_cast<size_t>(slots) * kSlotBytes;
  if (!fd_ || ::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) no_memory("create");
  // A rank that truncated it would kill the launcher by SIGBUS.
  ::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  memory_ = BoardMemory(fd_.get(), bytes);
  for (int64_t i = 0; i < slots; ++i) memory_.slot(i)->mark.store(kBoardMark);
}

RankStatus Board::read(int64_t slot) const {
  const BoardSlot& from = *memory_.slot(slot);
  RankStatus status;
  status.pid = from.pid.load();
  status.step = from.step_after.load() - 1;
  status.first_step = from.first_after.load() - 1;
  status.heartbeat_ns = from.heartbeat_ns.load();
  from.collective_version.read([&] {
    status.sequence = from.sequence_after.load(std::memory_order_acquire) - 1;
    status.inside = from.inside.load(std::memory_order_acquire) != 0;
    status.collective = from.collective.read();
  });
  from.phase_version.read([&] { status.phase = from.phase.read(); });
  status.failed = from.fail_state.load(std::memory_order_acquire) == kFailed;
  if (status.failed) {
    status.exit_code = from.exit_code.load(std::memory_order_relaxed);
    status.error = from.error.read();
  }
  return status;
}

}  // namespace accel
