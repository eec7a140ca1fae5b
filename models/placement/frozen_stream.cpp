#include "models/placement/frozen_stream.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "models/layers/activation_checkpoint.h"
#include "models/placement/weight_file.h"

/// Of OpenMP, whose header not every compiler has.
extern "C" void omp_set_num_threads(int);

namespace accel {
namespace {

/// Lets operators of this thread use no others: those are the training's.
void compute_alone() {
  at::get_num_threads();  // sets the number of the process first
  omp_set_num_threads(1);
}

int64_t largest_of(const std::vector<StreamedUnit>& units) {
  int64_t largest = WeightFile::kBlock;
  for (const StreamedUnit& unit : units) largest = std::max(largest, unit.bytes());
  return largest;
}

/// Two are the least with which one is read while another computes.
size_t slot_count(int64_t capacity, int64_t slot_bytes, size_t units) {
  const auto fitting = static_cast<size_t>(std::max<int64_t>(2, capacity / slot_bytes));
  return std::min(fitting, units);
}

}  // namespace

class FrozenStream::Hooks final : public BlockHooks {
 public:
  Hooks(FrozenStream& stream, size_t unit) : stream_(stream), unit_(unit) {}
  void before_forward() override {
    stream_.use(unit_, c10::GradMode::is_enabled() ? Pass::kForward : Pass::kEvaluation);
  }
  void after_forward(const at::Tensor&) override {}

 private:
  FrozenStream& stream_;
  size_t unit_;
};

/// The inputs of a block: a repeated forward pass takes them first.
class FrozenStream::Inputs final : public BlockInputs {
 public:
  Inputs(FrozenStream& stream, size_t unit, std::shared_ptr<BlockInputs> inner)
      : stream_(stream), unit_(unit), inner_(std::move(inner)) {}

  std::function<at::Tensor()> store(const at::Tensor& input) override {
    std::function<at::Tensor()> stored =
        inner_ ? inner_->store(input) : [input]() -> at::Tensor { return input; };
    return [&stream = stream_, unit = unit_, stored = std::move(stored)] {
      if (is_recomputing()) stream.use(unit, Pass::kBackward);
      return stored();
    };
  }

 private:
  FrozenStream& stream_;
  size_t unit_;
  std::shared_ptr<BlockInputs> inner_;
};

FrozenStream::FrozenStream(std::vector<StreamedUnit> units, int64_t capacity)
    : slot_bytes_(largest_of(units)),
      memory_(slot_bytes_ * static_cast<int64_t>(slot_count(capacity, slot_bytes_, units.size()))),
      slots_(slot_count(capacity, slot_bytes_, units.size())) {
  for (StreamedUnit& unit : units) {
    units_.push_back(std::make_unique<MovableUnit>(std::move(unit)));
    const MovableUnit& added = *units_.back();
    added.drop();
    hooks_.push_back(std::make_unique<Hooks>(*this, units_.size() - 1));
    added.block()->set_hooks(hooks_.back().get());
  }
}

void FrozenStream::start_readers() {
  for (size_t i = readers_.size(); i < kReaders; ++i) {
    readers_.emplace_back([this] {
      compute_alone();
      read_pieces();
    });
  }
}

std::vector<at::Tensor> FrozenStream::sources() const {
  std::vector<at::Tensor> out;
  for (const auto& unit : units_) {
    out.insert(out.end(), unit->sources().begin(), unit->sources().end());
  }
  return out;
}

FrozenStream::~FrozenStream() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  readers_.clear();
  for (const auto& unit : units_) {
    unit->block()->set_hooks(nullptr);
    unit->block()->set_inputs(nullptr);
  }
}

void FrozenStream::follow_recomputation(const std::shared_ptr<BlockInputs>& inputs) {
  for (size_t i = 0; i < units_.size(); ++i) {
    units_[i]->block()->set_inputs(std::make_shared<Inputs>(*this, i, inputs));
  }
}

FrozenFigures FrozenStream::figures() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

void FrozenStream::use(size_t unit, Pass pass) {
  std::unique_lock lock(mutex_);
  position_ = unit;
  pass_ = pass;
  start_readers();
  changed_.notify_all();
  if (current_ == unit) return;
  if (current_) units_[*current_]->move_back();
  current_.reset();
  const auto is_read = [&] {
    const Slot* slot = slot_of(unit);
    return slot && slot->unread == 0;
  };
  ++figures_.uses;
  if (is_read()) ++figures_.hits;
  changed_.wait(lock, [&] { return failure_ || is_read(); });
  if (failure_) std::rethrow_exception(failure_);
  units_[unit]->move_to(memory_of(*slot_of(unit)));
  current_ = unit;
}

size_t FrozenStream::distance_to(size_t unit) const {
  const size_t last = units_.size() - 1;
  const bool is_ahead = pass_ == Pass::kBackward ? unit <= position_ : unit >= position_;
  if (is_ahead) return unit < position_ ? position_ - unit : unit - position_;
  switch (pass_) {
    case Pass::kForward:  // to the end, and back
      return (last - position_) + 1 + (last - unit);
    case Pass::kBackward:  // to the first block, and forward again
      return position_ + 1 + unit;
    case Pass::kEvaluation:
      break;
  }
  return (last - position_) + 1 + unit;
}

FrozenStream::Slot* FrozenStream::slot_of(size_t unit) {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const Slot& slot) { return slot.unit == unit; });
  return found == slots_.end() ? nullptr : &*found;
}

std::byte* FrozenStream::memory_of(const Slot& slot) const {
  return memory_.data() + (&slot - slots_.data()) * slot_bytes_;
}

FrozenStream::Slot* FrozenStream::slot_for(size_t unit) {
  Slot* best = nullptr;
  size_t farthest = distance_to(unit);
  for (Slot& slot : slots_) {
    if (!slot.unit) return &slot;
    const bool is_busy = slot.unread > 0 || slot.unit == current_;
    const size_t distance = distance_to(*slot.unit);
    if (is_busy || distance <= farthest) continue;
    farthest = distance;
    best = &slot;
  }
  return best;
}

FrozenStream::Slot* FrozenStream::next_slot() {
  if (failure_) return nullptr;
  std::optional<size_t> nearest;  // of the units that are not read, or not to the end
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    const Slot* slot = slot_of(unit);
    if (slot && slot->next_piece == units_[unit]->pieces().size()) continue;
    if (!nearest || distance_to(unit) < distance_to(*nearest)) nearest = unit;
  }
  if (!nearest) return nullptr;
  if (Slot* slot = slot_of(*nearest)) return slot;
  if (Slot* slot = slot_for(*nearest)) {
    *slot = {*nearest, 0, units_[*nearest]->pieces().size()};
    return slot;
  }
  // A unit that is being read keeps its slot until it is in memory.
  const auto is_begun = [&](const Slot& slot) {
    return slot.unit && slot.next_piece < units_[*slot.unit]->pieces().size();
  };
  const auto begun = std::find_if(slots_.begin(), slots_.end(), is_begun);
  return begun == slots_.end() ? nullptr : &*begun;
}

void FrozenStream::read_pieces() {
  std::unique_lock lock(mutex_);
  while (!stops_) {
    Slot* const slot = next_slot();
    if (!slot) {
      changed_.wait(lock);
      continue;
    }
    const MovableUnit::Piece& piece = units_[*slot->unit]->pieces()[slot->next_piece++];
    lock.unlock();
    std::exception_ptr failure;
    try {
      piece.read_to(memory_of(*slot));
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
    lock.lock();
    figures_.bytes += piece.bytes;
    if (failure) failure_ = failure;
    if (--slot->unread == 0 || failure) changed_.notify_all();
  }
}

}  // namespace accel
