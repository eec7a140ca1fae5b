#include "train/loop/sharded_saver.h"

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/operations.h"
#include "train/job/build_strategy.h"
#include "train/loop/rank_errors.h"

namespace accel {

ShardedSaver::ShardedSaver(const Job& job, CheckpointStore& store, KeepPolicy keep)
    : job_(job), store_(store), keep_(std::move(keep)) {}

ShardedSaver::~ShardedSaver() {
  if (written_.valid()) written_.wait();
  if (published_.valid()) published_.wait();
}

void ShardedSaver::check_shared_folder() {
  Communicator& world = *job_.mesh.world;
  std::string probe;
  if (job_.is_main) {
    try {
      probe = store_.add_probe();
    } catch (const std::exception& error) {
      probe = error_text(error);
    }
  }
  probe = broadcast_text(world, probe);
  throw_if_error(probe);
  const std::vector<std::string> seen = gather_texts(world, store_.has_probe(probe) ? "1" : "");
  if (job_.is_main) store_.remove_probe(probe);
  for (size_t rank = 0; rank < seen.size(); ++rank) {
    if (!seen[rank].empty()) continue;
    throw CheckpointError(
        text("{} does not see the run folder of rank 0, into which it is to write its shards",
             rank_name(job_, static_cast<int64_t>(rank))),
        "put the run folder on a file system that all machines share, or set "
        "'accelerator.fsdp.state_dict' to full");
  }
}

void ShardedSaver::begin(TrainState state, int64_t bytes, bool async) {
  start_ = Clock::now();
  std::string refusal;
  if (job_.is_main) {
    try {
      store_.stage(state, bytes);
    } catch (const std::exception& error) {
      refusal = error_text(error);
    }
  }
  throw_if_error(broadcast_text(*job_.mesh.world, refusal));
  state_ = std::move(state);
  std::promise<void> copied;
  copied_ = copied.get_future();
  written_ = std::async(
      async ? std::launch::async : std::launch::deferred,
      [this, async, copied = std::move(copied)]() mutable { return write(copied, async); });
  if (!async) copied_ = {};
}

std::string ShardedSaver::write(std::promise<void>& copied, bool async) {
  try {
    if (async) {
      try {
        state_ = snapshot_.take(state_);
      } catch (...) {
        copied.set_value();  // unblocks wait_for_snapshot(); commit() rethrows
        throw;
      }
      copied.set_value();
    }
    return to_bytes(store_.write_shards(state_));
  } catch (const std::exception& error) {
    return error_text(error);
  }
}

void ShardedSaver::wait_for_snapshot() {
  if (copied_.valid()) copied_.get();
}

bool ShardedSaver::has_written() const {
  return written_.valid() &&
         written_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::vector<ShardRecord> ShardedSaver::exchange(const std::string& own) {
  const std::vector<std::string> all = gather_texts(*job_.mesh.world, own);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    try {
      throw_if_error(all[rank]);
    } catch (const Error& error) {
      if (job_.is_main) store_.discard_staged(state_.progress.step);
      const std::string message =
          text("cannot save the checkpoint of step {}: {}: {}", state_.progress.step,
               rank_name(job_, static_cast<int64_t>(rank)), error.what());
      const char* const hint = "older checkpoints are unchanged";
      if (error.code() == ExitCode::kIo) throw IoError(message, hint);
      throw Error(error.code(), message, hint);
    }
  }
  std::vector<ShardRecord> records;
  if (!job_.is_main) return records;
  for (const std::string& bytes : all) records.push_back(shard_record_of(bytes));
  return records;
}

FinishedSave ShardedSaver::publish(std::vector<ShardRecord> records) {
  FinishedSave done;
  done.step = state_.progress.step;
  done.path = store_.publish_shards(state_, std::move(records));
  store_.retain(keep_, done.step);
  done.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  return done;
}

void ShardedSaver::commit(bool wait_for_it) {
  wait_for_snapshot();
  std::vector<ShardRecord> records = exchange(written_.get());
  if (job_.is_main) {
    published_ = std::async(std::launch::async, [this, records = std::move(records)]() mutable {
      return publish(std::move(records));
    });
  }
  if (!wait_for_it) return;
  std::string refusal;
  try {
    if (published_.valid()) finished_ = published_.get();
  } catch (const std::exception& error) {
    refusal = error_text(error);
  }
  throw_if_error(broadcast_text(*job_.mesh.world, refusal));
}

std::optional<FinishedSave> ShardedSaver::poll() {
  const bool ended = published_.valid() &&
                     published_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  return ended || finished_ ? wait() : std::nullopt;
}

std::optional<FinishedSave> ShardedSaver::wait() {
  if (finished_) return std::exchange(finished_, std::nullopt);
  if (!published_.valid()) return std::nullopt;
  return published_.get();
}

}  // namespace accel
