// Saves while training goes on: parameters and optimizer state do not change between one update and
// the next, so they are copied behind the forward and backward pass and written behind whatever
// comes then.
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <string>

#include "runner/checkpoint/snapshot.h"
#include "runner/checkpoint/store.h"

namespace accel {

struct FinishedSave {
  int64_t step = 0;
  std::string path;    ///< of the published checkpoint
  double seconds = 0;  ///< from begin() until it was published and older ones were rotated out
};

/// One save at a time, on a thread of its own, in order. Not thread-safe itself.
class BackgroundSaver {
 public:
  /// `store` outlives the saver and is not written to by others meanwhile. `keep` is applied after
  /// each save.
  BackgroundSaver(CheckpointStore& store, KeepPolicy keep);
  /// Waits for the save under way; its error, if any, is lost.
  ~BackgroundSaver();
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  /// Starts to save. The tensors of `state` must not change before wait_until_copied() returns.
  /// There must be no save under way: wait() first.
  void begin(TrainState state);
  /// Saves here and now, without a copy, as save() of the store but rotating too.
  FinishedSave save_now(const TrainState& state);
  /// Returns at once when nothing is being copied.
  void wait_until_copied();
  /// The save that has ended since the last call, if one has. Throws what it threw.
  std::optional<FinishedSave> poll();
  /// The same, but waits for the one under way.
  std::optional<FinishedSave> wait();

 private:
  FinishedSave copy_and_save(const TrainState& state, std::promise<void>& copied);

  CheckpointStore& store_;
  KeepPolicy keep_;
  Snapshot snapshot_;
  std::future<void> copied_;
  std::future<FinishedSave> save_;
};

}  // namespace accel
