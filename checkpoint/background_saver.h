// Asynchronous saves. Parameters and optimizer state are constant between updates: they are copied
// during the forward and backward pass and written during later steps.
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/store.h"
#include "checkpoint/train_state.h"

namespace accel {

/// Reuses its host memory for every copy: page faults of fresh memory cost more than the copy.
class Snapshot {
 public:
  /// A deep copy on the host; tied tensors stay tied. Valid until the next take(), whose memory it
  /// shares; may outlive this object.
  TrainState take(const TrainState& state);

 private:
  at::Tensor copy(const at::Tensor& tensor);

  std::vector<at::Tensor> buffers_;  // in the order of use
  size_t next_ = 0;
};

struct FinishedSave {
  int64_t step = 0;
  std::string path;    ///< of the published checkpoint
  double seconds = 0;  ///< from begin() to the end of publishing and rotation
};

/// One save at a time, on a background thread. Not thread-safe.
class BackgroundSaver {
 public:
  /// `store` must outlive the saver and have no other writer. `keep` is applied after each save.
  BackgroundSaver(CheckpointStore& store, KeepPolicy keep);
  /// Waits for the save in progress and ignores its error.
  ~BackgroundSaver();
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  /// Starts a save; wait() for the previous one first. The tensors of `state` must not change
  /// before wait_for_snapshot() returns.
  void begin(TrainState state);
  /// Saves synchronously without a copy, and applies `keep`.
  FinishedSave save_now(const TrainState& state);
  /// Applies `keep` to the checkpoints up to step `newest`; not during a save.
  void retain(int64_t newest) { store_.retain(keep_, newest); }
  /// Blocks until the state is copied.
  void wait_for_snapshot();
  /// The save that has finished since the last call, if any. Rethrows its exception.
  std::optional<FinishedSave> poll();
  /// As poll(), but waits for the save in progress.
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
