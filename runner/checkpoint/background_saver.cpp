#include "runner/checkpoint/background_saver.h"

#include <chrono>
#include <stdexcept>
#include <utility>

namespace accel {

BackgroundSaver::BackgroundSaver(CheckpointStore& store, KeepPolicy keep)
    : store_(store), keep_(std::move(keep)) {}

BackgroundSaver::~BackgroundSaver() {
  if (save_.valid()) save_.wait();
}

void BackgroundSaver::begin(TrainState state) {
  if (save_.valid()) throw std::logic_error("a save is under way");
  std::promise<void> copied;
  copied_ = copied.get_future();
  save_ = std::async(std::launch::async,
                     [this, state = std::move(state), copied = std::move(copied)]() mutable {
                       return copy_and_save(state, copied);
                     });
}

FinishedSave BackgroundSaver::copy_and_save(const TrainState& state, std::promise<void>& copied) {
  TrainState copy;
  try {
    copy = snapshot_.take(state);
  } catch (...) {
    copied.set_value();  // whoever waits need not wait on; the save itself tells what failed
    throw;
  }
  copied.set_value();
  return save_now(copy);
}

FinishedSave BackgroundSaver::save_now(const TrainState& state) {
  const auto start = std::chrono::steady_clock::now();
  FinishedSave done;
  done.step = state.progress.step;
  done.path = store_.save(state);
  store_.retain(keep_, done.step);
  done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return done;
}

void BackgroundSaver::wait_until_copied() {
  if (copied_.valid()) copied_.get();
}

std::optional<FinishedSave> BackgroundSaver::poll() {
  const bool ended =
      save_.valid() && save_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  return ended ? wait() : std::nullopt;
}

std::optional<FinishedSave> BackgroundSaver::wait() {
  if (!save_.valid()) return std::nullopt;
  wait_until_copied();
  return save_.get();  // leaves no valid future behind, error or not
}

}  // namespace accel
