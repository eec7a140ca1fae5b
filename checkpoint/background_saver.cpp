#include "checkpoint/background_saver.h"

#include <chrono>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>

#include "checkpoint/tensors.h"

namespace accel {

BackgroundSaver::BackgroundSaver(CheckpointStore& store, KeepPolicy keep)
    : store_(store), keep_(std::move(keep)) {}

BackgroundSaver::~BackgroundSaver() {
  if (save_.valid()) save_.wait();
}

void BackgroundSaver::begin(TrainState state) {
  if (save_.valid()) throw std::logic_error("a save is in progress");
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
    copied.set_value();  // unblocks wait_for_snapshot(); the save rethrows
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
  retain(done.step);
  done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return done;
}

void BackgroundSaver::wait_for_snapshot() {
  if (copied_.valid()) copied_.get();
}

std::optional<FinishedSave> BackgroundSaver::poll() {
  const bool ended =
      save_.valid() && save_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  return ended ? wait() : std::nullopt;
}

std::optional<FinishedSave> BackgroundSaver::wait() {
  if (!save_.valid()) return std::nullopt;
  wait_for_snapshot();
  return save_.get();  // invalidates the future, also by an exception
}

at::Tensor Snapshot::copy(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (next_ == buffers_.size()) buffers_.emplace_back();
  at::Tensor& buffer = buffers_[next_++];
  const bool fits = buffer.defined() && buffer.sizes() == tensor.sizes() &&
                    buffer.scalar_type() == tensor.scalar_type() && tensor.is_cpu();
  if (fits && tensor.is_contiguous()) {
    // Unlike copy_(), memcpy() does not use the threads of the training step.
    std::memcpy(buffer.mutable_data_ptr(), tensor.const_data_ptr(), tensor.nbytes());
  } else if (fits) {
    buffer.copy_(tensor.detach());
  } else {
    buffer = host_copy(tensor).contiguous();
  }
  return buffer;
}

TrainState Snapshot::take(const TrainState& state) {
  next_ = 0;
  TrainState out = state;
  std::map<const void*, at::Tensor> model;  // each storage once
  for (Parameter& named : out.model) {
    at::Tensor& made = model[named.local.unsafeGetTensorImpl()];
    if (!made.defined()) made = copy(named.local);
    named.local = made;
  }
  for (OptimizerState::Group& group : out.optimizer.groups) {
    for (OptimizerState::ParameterState& parameter : group.parameters) {
      for (Parameter& slot : parameter.slots) slot.local = copy(slot.local);
    }
  }
  const auto copy_all = [this](StateDict& section) {
    for (auto& [name, tensor] : section.tensors) tensor = copy(tensor);
  };
  copy_all(out.schedule);
  if (out.scaler) copy_all(*out.scaler);
  out.rng = copy(out.rng);
  for (at::Tensor& rng : out.other_rngs) rng = copy(rng);
  for (at::Tensor& rng : out.device_rngs) rng = copy(rng);
  for (auto& [name, section] : out.sections) copy_all(section);
  buffers_.resize(next_);
  return out;
}

}  // namespace accel
