#include "models/placement/weight_stream.h"

#include <algorithm>
#include <chrono>

#include "models/placement/weight_file.h"

namespace accel {
namespace {

double seconds_now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

/// Whole blocks of a file, at least the largest unit and at most all of them.
int64_t ring_bytes(const std::vector<StreamedUnit>& units, int64_t capacity) {
  int64_t largest = 0, all = 0;
  for (const StreamedUnit& unit : units) {
    largest = std::max(largest, unit.bytes());
    all += unit.bytes();
  }
  const int64_t blocks = capacity / WeightFile::kBlock * WeightFile::kBlock;
  return std::min(std::max(blocks, largest), all);
}

}  // namespace

class WeightStream::Hooks final : public BlockHooks {
 public:
  Hooks(WeightStream& stream, size_t unit) : stream_(stream), unit_(unit) {}
  void before_forward() override { stream_.acquire(unit_); }
  void after_forward(const at::Tensor&) override { stream_.after(unit_); }

 private:
  WeightStream& stream_;
  size_t unit_;
};

WeightStream::WeightStream(std::vector<StreamedUnit> units, std::vector<MappedRange> rest,
                           int64_t capacity, User user)
    : rest_(std::move(rest)), ring_(ring_bytes(units, capacity)) {
  for (StreamedUnit& unit : units) {
    units_.push_back(std::make_unique<MovableUnit>(std::move(unit)));
    const MovableUnit& added = *units_.back();
    added.drop();
    if (!added.block() || user != User::kBlocks) continue;
    hooks_.push_back(std::make_unique<Hooks>(*this, units_.size() - 1));
    added.block()->set_hooks(hooks_.back().get());
  }
  for (const MappedRange& range : rest_) {
    range.expect_random_access();
    range.drop();
  }
  for (size_t i = 0; i < kReaders; ++i) readers_.emplace_back([this] { read_pieces(); });
}

WeightStream::~WeightStream() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  readers_.clear();
  for (size_t i = 0; !hooks_.empty() && i < units_.size(); ++i) {
    if (units_[i]->block()) units_[i]->block()->set_hooks(nullptr);
  }
}

StreamFigures WeightStream::figures() const {
  const std::lock_guard lock(mutex_);
  StreamFigures out = figures_;
  out.peak_bytes = ring_.peak();
  return out;
}

void WeightStream::acquire(size_t unit) {
  std::unique_lock lock(mutex_);
  if (began_ < 0) began_ = seconds_now();
  if (unit == 0) {
    ++figures_.passes;
    for (const MappedRange& range : rest_) range.drop();
    if (head_in_use_) free(units_.size() - 1);
    head_in_use_ = false;
  }
  if (loading_.empty() ? to_load_ != unit : loading_.front().unit != unit) restart_at(unit, lock);
  use(unit, lock);
}

void WeightStream::release(size_t unit) {
  const std::lock_guard lock(mutex_);
  free(unit);
  figures_.seconds = seconds_now() - began_;
}

bool WeightStream::is_ready(size_t unit) const {
  const std::lock_guard lock(mutex_);
  return failure_ ||
         (!loading_.empty() && loading_.front().unit == unit && loading_.front().unread == 0);
}

void WeightStream::after(size_t unit) {
  std::unique_lock lock(mutex_);
  free(unit);
  const size_t head = units_.size() - 1;
  if (unit + 1 == head && !units_[head]->block()) {
    use(head, lock);
    head_in_use_ = true;
  }
  figures_.seconds = seconds_now() - began_;
}

void WeightStream::use(size_t unit, std::unique_lock<std::mutex>& lock) {
  const double begin = seconds_now();
  changed_.wait(lock,
                [&] { return failure_ || (!loading_.empty() && loading_.front().unread == 0); });
  if (failure_) std::rethrow_exception(failure_);
  figures_.waited += seconds_now() - begin;
  units_[unit]->move_to(loading_.front().region);
}

void WeightStream::free(size_t unit) {
  units_[unit]->move_back();
  // A tied head is read as a table of embeddings too, in the mapped file.
  if (!units_[unit]->block()) units_[unit]->drop();
  figures_.bytes += units_[unit]->bytes();
  loading_.pop_front();
  ring_.free_oldest();
  changed_.notify_all();
}

void WeightStream::restart_at(size_t unit, std::unique_lock<std::mutex>& lock) {
  restarting_ = true;
  changed_.wait(lock, [&] { return reading_ == 0; });
  for (const Loading& item : loading_) units_[item.unit]->move_back();
  loading_.clear();
  ring_.clear();
  to_load_ = unit;
  head_in_use_ = false;
  restarting_ = false;
  changed_.notify_all();
}

WeightStream::Loading* WeightStream::next_unit() {
  if (restarting_ || failure_) return nullptr;
  if (!loading_.empty()) {
    Loading& last = loading_.back();
    if (last.next_piece < units_[last.unit]->pieces().size()) return &last;
  }
  // A unit that is still in use is not read again.
  if (loading_.size() == units_.size()) return nullptr;
  const MovableUnit& unit = *units_[to_load_];
  const std::optional<int64_t> at = ring_.take(unit.bytes());
  if (!at) return nullptr;
  loading_.push_back({to_load_, ring_.data() + *at, 0, unit.pieces().size()});
  to_load_ = (to_load_ + 1) % units_.size();
  return &loading_.back();
}

void WeightStream::read_pieces() {
  std::unique_lock lock(mutex_);
  while (!stops_) {
    Loading* const from = next_unit();
    if (from) {
      read_piece(*from, lock);
    } else {
      changed_.wait(lock);
    }
  }
}

void WeightStream::read_piece(Loading& from, std::unique_lock<std::mutex>& lock) {
  const MovableUnit::Piece& piece = units_[from.unit]->pieces()[from.next_piece++];
  ++reading_;
  lock.unlock();
  std::exception_ptr failure;
  try {
    piece.read_to(from.region);
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  lock.lock();
  --reading_;
  --from.unread;
  if (failure) failure_ = failure;
  if (from.unread == 0 || reading_ == 0) changed_.notify_all();
}

}  // namespace accel
