// Saves of a sharded state: every rank writes its file, rank 0 publishes when all have.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <string>

#include "checkpoint/background_saver.h"
#include "checkpoint/store.h"
#include "train/job/job.h"

namespace accel {

/// One save at a time. Files are written on a background thread, which calls no collective: ranks
/// exchange what they have written in commit(), between steps. begin() and commit() are for all
/// ranks, in the same order, and throw the error of any rank on each of them.
class ShardedSaver {
 public:
  /// Both outlive the saver.
  ShardedSaver(const Job& job, CheckpointStore& store, KeepPolicy keep);
  /// Waits for the files of this rank and ignores errors.
  ~ShardedSaver();
  ShardedSaver(const ShardedSaver&) = delete;
  ShardedSaver& operator=(const ShardedSaver&) = delete;

  /// Throws CheckpointError on all ranks when one does not see the run folder of rank 0.
  void check_shared_folder();

  /// Starts a save of the tensors that this rank writes, of `bytes` over all ranks. With `async`
  /// they must not change before wait_for_snapshot() returns, else before commit() does.
  void begin(TrainState state, int64_t bytes, bool async);
  /// Blocks until the state is copied.
  void wait_for_snapshot();
  /// Whether a save has begun and is not committed; the same on all ranks.
  bool is_writing() const { return written_.valid(); }
  /// Whether this rank has written its files.
  bool has_written() const;
  /// Waits for the files of all ranks; then rank 0 starts to publish, after which `wait_for_it` all
  /// ranks wait.
  void commit(bool wait_for_it);
  /// The save that rank 0 has published since the last call, if any. Rethrows its exception.
  std::optional<FinishedSave> poll();
  /// As poll(), but waits for it.
  std::optional<FinishedSave> wait();

 private:
  using Clock = std::chrono::steady_clock;

  std::string write(std::promise<void>& copied, bool async);
  FinishedSave publish(std::vector<ShardRecord> records);
  /// The records of all ranks. Throws the first error.
  std::vector<ShardRecord> exchange(const std::string& own);

  const Job& job_;
  CheckpointStore& store_;
  KeepPolicy keep_;
  Snapshot snapshot_;
  TrainState state_;  ///< of the save under way
  Clock::time_point start_;
  std::future<void> copied_;
  std::future<std::string> written_;  ///< this rank's record, or an error_text()
  std::future<FinishedSave> published_;
  std::optional<FinishedSave> finished_;  ///< a result of published_ that poll() is to return
};

}  // namespace accel
