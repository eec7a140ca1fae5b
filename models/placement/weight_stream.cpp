#include "models/placement/weight_stream.h"

#include <algorithm>
#include <chrono>

namespace accel {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;

}  // namespace

int64_t StreamedUnit::bytes() const {
  int64_t sum = 0;
  for (const MappedRange& range : ranges) sum += static_cast<int64_t>(range.bytes.size());
  return sum;
}

class WeightStream::Hooks final : public BlockHooks {
 public:
  Hooks(WeightStream& stream, size_t unit) : stream_(stream), unit_(unit) {}
  void before_forward() override { stream_.before(unit_); }
  void after_forward(const at::Tensor&) override { stream_.after(unit_); }

 private:
  WeightStream& stream_;
  size_t unit_;
};

WeightStream::WeightStream(std::vector<StreamedUnit> units, std::vector<MappedRange> rest,
                           int64_t capacity)
    : units_(std::move(units)), rest_(std::move(rest)), capacity_(capacity) {
  for (size_t i = 0; i < units_.size(); ++i) {
    capacity_ = std::max(capacity_, units_[i].bytes());
    for (const MappedRange& range : units_[i].ranges) range.drop();
    if (!units_[i].block) continue;
    hooks_.push_back(std::make_unique<Hooks>(*this, i));
    units_[i].block->set_hooks(hooks_.back().get());
  }
  for (const MappedRange& range : rest_) range.drop();
  reader_ = std::thread([this] { read_units(); });
}

WeightStream::~WeightStream() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  reader_.join();
  for (const StreamedUnit& unit : units_) {
    if (unit.block) unit.block->set_hooks(nullptr);
  }
}

double WeightStream::now() const {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

StreamFigures WeightStream::figures() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

void WeightStream::before(size_t unit) {
  std::unique_lock lock(mutex_);
  if (began_ < 0) began_ = now();
  if (unit == 0) {
    ++figures_.passes;
    for (const MappedRange& range : rest_) range.drop();
    if (head_in_use_) release(units_.size() - 1, lock);
    head_in_use_ = false;
  }
  if (unit != first_) restart_at(unit, lock);
  wait_for(unit, lock);
}

void WeightStream::after(size_t unit) {
  std::unique_lock lock(mutex_);
  release(unit, lock);
  const size_t head = units_.size() - 1;
  if (unit + 1 == head && !units_[head].block) {
    wait_for(head, lock);
    head_in_use_ = true;
  }
  figures_.seconds = now() - began_;
}

void WeightStream::wait_for(size_t unit, std::unique_lock<std::mutex>& lock) {
  const double begin = now();
  changed_.wait(lock, [&] { return first_ == unit && ready_ > 0; });
  figures_.waited += now() - begin;
}

void WeightStream::release(size_t unit, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  for (const MappedRange& range : units_[unit].ranges) range.drop();
  lock.lock();
  in_memory_ -= units_[unit].bytes();
  figures_.bytes += units_[unit].bytes();
  first_ = (unit + 1) % units_.size();
  --ready_;
  changed_.notify_all();
}

void WeightStream::restart_at(size_t unit, std::unique_lock<std::mutex>& lock) {
  ++restarts_;
  restarting_ = true;
  changed_.wait(lock, [&] { return !is_reading_; });
  for (const StreamedUnit& item : units_) {
    for (const MappedRange& range : item.ranges) range.drop();
  }
  first_ = reading_ = unit;
  ready_ = 0;
  in_memory_ = 0;
  head_in_use_ = false;
  restarting_ = false;
  changed_.notify_all();
}

void WeightStream::read_units() {
  std::unique_lock lock(mutex_);
  while (!stops_) {
    changed_.wait(lock, [&] { return stops_ || !restarting_; });
    const uint64_t run = restarts_;
    const size_t unit = reading_;
    read_unit(unit, lock);
    if (stops_ || run != restarts_) continue;
    reading_ = (unit + 1) % units_.size();
    ++ready_;
    changed_.notify_all();
  }
}

void WeightStream::read_unit(size_t unit, std::unique_lock<std::mutex>& lock) {
  const uint64_t run = restarts_;
  const auto is_over = [&] { return stops_ || run != restarts_; };
  // A unit that is still in use is not read again.
  changed_.wait(lock, [&] { return is_over() || ready_ < units_.size(); });
  for (const MappedRange& range : units_[unit].ranges) {
    for (size_t at = 0; at < range.bytes.size(); at += kPieceBytes) {
      const size_t count = std::min(kPieceBytes, range.bytes.size() - at);
      const auto bytes = static_cast<int64_t>(count);
      changed_.wait(lock, [&] { return is_over() || in_memory_ + bytes <= capacity_; });
      if (is_over()) return;
      in_memory_ += bytes;
      figures_.peak_bytes = std::max(figures_.peak_bytes, in_memory_);
      is_reading_ = true;
      lock.unlock();
      // The disk has the next piece in its queue while this one is awaited.
      range.start_reading(at, std::min(2 * kPieceBytes, range.bytes.size() - at));
      range.read(at, count);
      lock.lock();
      is_reading_ = false;
      changed_.notify_all();
    }
  }
}

}  // namespace accel
