// Status board: shared memory in which ranks report their progress to the launcher.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/owned_fd.h"
#include "parallel/rendezvous/rank_info.h"

namespace accel {

struct BoardSlot;

/// The last status of a rank.
struct RankStatus {
  int64_t pid = 0;          ///< 0: the rank has not opened the board yet
  int64_t step = -1;        ///< -1: none yet
  int64_t first_step = -1;  ///< the first since the rank's start; -1: none yet
  int64_t sequence = -1;    ///< of the current or last collective; -1: none yet
  bool inside = false;
  std::string collective;    ///< its name
  std::string phase;         ///< such as "data" or "forward"
  int64_t heartbeat_ns = 0;  ///< steady clock at the last write; 0: none yet
  bool failed = false;
  int exit_code = 0;  ///< the arguments of fail()
  std::string error;
};

/// The clock of heartbeats in nanoseconds, shared by all processes of a machine.
int64_t steady_now_ns() noexcept;

/// Memory shared between processes, or private.
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

/// The rank's end. All but the constructors are async-signal-safe: no lock, no system call but the
/// clock's, no failure. Names are truncated to 47 characters (phases to 31), texts to 1999 bytes.
/// One thread at a time may be between enter() and leave(); any thread may call the others.
class BoardWriter {
 public:
  static constexpr size_t kLongestName = 47;
  static constexpr size_t kLongestPhase = 31;
  static constexpr size_t kLongestError = 1999;

  /// Without a launcher: private memory.
  BoardWriter();
  /// Slot `local_rank` of the launcher's board. `fd` may be closed afterwards. Throws Error (exit
  /// code 2) when it is not a board.
  BoardWriter(int fd, int64_t local_rank);
  /// The board of the environment, whose descriptor is closed; without one, private memory. Call
  /// it after the process has re-executed itself.
  static BoardWriter open(const EnvironmentLookup& lookup);

  /// Whether a launcher reads the board. It reports the text of fail(); the rank prints nothing.
  bool has_launcher() const noexcept { return shared_; }

  void step(int64_t step) noexcept;
  /// `sequence` counts the collectives from 0, equal on all ranks.
  void enter(const char* name, int64_t sequence) noexcept;
  void leave() noexcept;
  void phase(const char* name) noexcept;
  /// `text` is the error as printed, or only its message. The first call wins.
  void fail(int exit_code, const char* text) noexcept;

 private:
  BoardMemory memory_;
  BoardSlot* slot_;
  bool shared_ = false;
};

/// The launcher's end: one empty slot per rank.
class Board {
 public:
  /// Throws Error when there is no memory.
  explicit Board(int64_t slots);

  /// Closed on exec by default.
  int fd() const { return fd_.get(); }
  /// Safe whenever the rank was killed: names hold the last written text, at worst a mixture of
  /// two.
  RankStatus read(int64_t slot) const;

 private:
  OwnedFd fd_;
  BoardMemory memory_;
};

}  // namespace accel
