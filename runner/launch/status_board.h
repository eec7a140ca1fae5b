// What each rank is doing, in memory that outlives it: ranks write, the launcher reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runner/launch/owned_fd.h"
#include "runner/launch/rank_place.h"

namespace accel {

struct BoardSlot;

/// What one rank last wrote.
struct RankStatus {
  int64_t pid = 0;        ///< 0: the rank has not come as far as opening the board
  int64_t step = -1;      ///< -1: none yet
  int64_t sequence = -1;  ///< of the collective that it is in or was in last; -1: none yet
  bool inside = false;
  std::string collective;    ///< its name
  std::string phase;         ///< such as "data" or "forward"
  int64_t heartbeat_ns = 0;  ///< steady clock at the last write; 0: none yet
  bool failed = false;
  int exit_code = 0;  ///< the two of fail()
  std::string error;
};

/// Nanoseconds of the clock that heartbeats are given in. It is one for all processes of a machine.
int64_t steady_now_ns() noexcept;

/// Memory that is shared by processes, or private to this one.
class BoardMemory {
 public:
  BoardMemory() = default;
  /// Maps `bytes` of `fd`, or fresh private memory for -1. Throws Error.
  BoardMemory(int fd, size_t bytes);
  ~BoardMemory();
  BoardMemory(BoardMemory&& from) noexcept;
  BoardMemory& operator=(BoardMemory&& from) noexcept;

  BoardSlot* slot(int64_t index) const;

 private:
  void* start_ = nullptr;
  size_t bytes_ = 0;
};

/// A rank's side. All but the constructors may be called at any time, in signal handlers too: no
/// lock, no system call but the clock's, no failure. Names are cut to 47 characters (a phase's to
/// 31), texts to 1999 bytes. One thread at a time may be between enter() and leave(); the rest may
/// be called by any thread.
class BoardWriter {
 public:
  static constexpr size_t kLongestName = 47;
  static constexpr size_t kLongestPhase = 31;
  static constexpr size_t kLongestError = 1999;

  /// Without a launcher: the same calls, read by nobody.
  BoardWriter();
  /// Slot `local_rank` of a board that the launcher made. `fd` may be closed afterwards. Throws
  /// Error (exit code 2) when it is no such board.
  BoardWriter(int fd, int64_t local_rank);
  /// The board that the environment names, of which the descriptor is closed then; without one,
  /// private memory. Not before the process starts itself anew: the descriptor is gone by then.
  static BoardWriter open(const EnvironmentLookup& lookup);

  /// Whether a launcher reads. Then it reports what fail() was told, and the rank itself is silent.
  bool has_launcher() const noexcept { return shared_; }

  void step(int64_t step) noexcept;
  /// `sequence` counts the collectives of a rank from 0, alike on all ranks.
  void enter(const char* name, int64_t sequence) noexcept;
  void leave() noexcept;
  void phase(const char* name) noexcept;
  /// `text` as it would be printed, or only its message. The first call counts.
  void fail(int exit_code, const char* text) noexcept;

 private:
  BoardMemory memory_;
  BoardSlot* slot_;
  bool shared_ = false;
};

/// The launcher's side: as many slots as it starts ranks, all empty.
class Board {
 public:
  /// Throws Error when there is no memory.
  explicit Board(int64_t slots);

  /// Closed on exec unless the caller changes that.
  int fd() const { return fd_.get(); }
  /// Whatever state the rank was killed in, names hold what was written last, at worst mixed.
  RankStatus read(int64_t slot) const;

 private:
  OwnedFd fd_;
  BoardMemory memory_;
};

}  // namespace accel
