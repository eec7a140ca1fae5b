#include "models/placement/device_stream.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <set>
#include <utility>

#include "models/placement/streamed_unit.h"

namespace accel {
namespace {

constexpr int64_t kAlignment = 256;  // of a weight on the GPU, in bytes

int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

c10::Stream current_stream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

/// A unit whose values in memory are contiguous and page-locked.
class DeviceStream::Unit {
 public:
  Unit(const DeviceUnit& unit, at::Device device) : block_(unit.block), on_disk_(unit.on_disk) {
    std::set<const void*> seen;  // tied weights are one parameter
    for (const HostWeight& item : unit.weights) {
      if (!seen.insert(item.parameter.unsafeGetTensorImpl()).second) continue;
      const auto bytes = static_cast<int64_t>(item.parameter.nbytes());
      weights_.push_back({item.parameter, item.parameter.detach(), item.values, bytes_});
      bytes_ += aligned(bytes);
      item.parameter.set_data(at::for_blob(nullptr, item.parameter.sizes())
                                  .options(item.parameter.options().device(device))
                                  .target_device(device)
                                  .make_tensor());
    }
    if (!on_disk_) lock_values(device);
  }
  ~Unit() {
    for (const Weight& item : weights_) item.parameter.set_data(item.before);
  }
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  Block* block() const { return block_; }
  const std::optional<size_t>& on_disk() const { return on_disk_; }
  /// On the GPU.
  int64_t bytes() const { return bytes_; }

  void copy_to(const at::Tensor& region) const {
    for (const Weight& item : weights_) {
      const auto bytes = static_cast<int64_t>(item.values.nbytes());
      region.narrow(0, item.at, bytes)
          .view(item.values.scalar_type())
          .view(item.values.sizes())
          .copy_(item.values, /*non_blocking=*/true);
    }
  }
  /// The parameters are in the region; null: without memory.
  void move_to(std::byte* region) const {
    for (const Weight& item : weights_) {
      set_memory(item.parameter, region ? region + item.at : nullptr);
    }
  }

 private:
  struct Weight {
    at::Tensor parameter;
    at::Tensor before;  ///< the parameter's data, to restore
    at::Tensor values;
    int64_t at;  ///< in the region
  };

  void lock_values(at::Device device) {
    memory_ = at::empty({bytes_}, at::kByte);
    for (Weight& item : weights_) {
      const auto bytes = static_cast<int64_t>(item.values.nbytes());
      at::Tensor copy = memory_.narrow(0, item.at, bytes)
                            .view(item.values.scalar_type())
                            .view(item.values.sizes());
      item.values = copy.copy_(item.values);
    }
    locked_ = std::make_unique<LockedMemory>(
        std::span(static_cast<std::byte*>(memory_.mutable_data_ptr()), memory_.nbytes()), device);
  }

  Block* block_;
  std::optional<size_t> on_disk_;
  int64_t bytes_ = 0;
  std::vector<Weight> weights_;
  at::Tensor memory_;
  std::unique_ptr<LockedMemory> locked_;
};

class DeviceStream::Hooks final : public BlockHooks {
 public:
  Hooks(DeviceStream& stream, size_t unit) : stream_(stream), unit_(unit) {}
  void before_forward() override { stream_.before(unit_); }
  void after_forward(const at::Tensor&) override { stream_.after(unit_); }

 private:
  DeviceStream& stream_;
  size_t unit_;
};

namespace {

/// At least the largest unit and at most all of them.
template <class Units>
int64_t capacity_for(const Units& units, int64_t capacity) {
  int64_t largest = 0, all = 0;
  for (const auto& unit : units) {
    largest = std::max(largest, unit->bytes());
    all += unit->bytes();
  }
  return std::min(std::max(capacity / kAlignment * kAlignment, largest), all);
}

template <class Unit>
std::vector<std::unique_ptr<Unit>> on_device(const std::vector<DeviceUnit>& units,
                                             at::Device device) {
  const c10::NoGradGuard no_grad;
  std::vector<std::unique_ptr<Unit>> out;
  for (const DeviceUnit& unit : units) out.push_back(std::make_unique<Unit>(unit, device));
  return out;
}

}  // namespace

DeviceStream::DeviceStream(const std::vector<DeviceUnit>& units, at::Device device,
                           int64_t capacity, WeightStream* disk)
    : disk_(disk),
      units_(on_device<Unit>(units, device)),
      ring_(capacity_for(units_, capacity)),
      memory_(at::empty({ring_.capacity()}, at::TensorOptions(at::kByte).device(device))),
      copies_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {
  if (disk_) disk_memory_ = std::make_unique<LockedMemory>(disk_->memory(), device);
  for (size_t i = 0; i < units_.size(); ++i) {
    if (!units_[i]->block()) continue;
    hooks_.push_back(std::make_unique<Hooks>(*this, i));
    units_[i]->block()->set_hooks(hooks_.back().get());
  }
}

DeviceStream::~DeviceStream() {
  try {
    for (const Loaded& item : loaded_) item.copied.synchronize();
  } catch (const c10::Error&) {
    // The device failed, which the pass that uses it reports.
  }
  for (const auto& unit : units_) {
    if (unit->block()) unit->block()->set_hooks(nullptr);
  }
}

int64_t DeviceStream::pass_bytes() const {
  int64_t sum = 0;
  for (const auto& unit : units_) sum += unit->bytes();
  return sum;
}

void DeviceStream::before(size_t unit) {
  if (unit == 0) {
    ++passes_;
    if (head_in_use_) free();
    head_in_use_ = false;
  }
  if (loaded_.empty() ? to_load_ != unit : loaded_.front().unit != unit) {
    // Another pass than the one that was expected.
    for (const Loaded& item : loaded_) units_[item.unit]->move_to(nullptr);
    loaded_.clear();
    ring_.clear();
    head_in_use_ = false;
    to_load_ = unit;
  }
  if (loaded_.empty()) load();
  use();
}

void DeviceStream::after(size_t unit) {
  free();
  const size_t head = units_.size() - 1;
  if (unit + 1 == head && !units_[head]->block()) {
    if (loaded_.empty()) load();
    use();
    head_in_use_ = true;
  }
  load_ahead();
}

void DeviceStream::use() {
  const Loaded& first = loaded_.front();
  first.copied.block(current_stream(memory_.device()));
  units_[first.unit]->move_to(static_cast<std::byte*>(memory_.mutable_data_ptr()) + first.region);
}

void DeviceStream::free() {
  units_[loaded_.front().unit]->move_to(nullptr);
  loaded_.pop_front();
  ring_.free_oldest();
}

bool DeviceStream::load() {
  const c10::NoGradGuard no_grad;
  // A unit that is still in use is not copied again.
  if (loaded_.size() == units_.size()) return false;
  const Unit& unit = *units_[to_load_];
  const std::optional<int64_t> region = ring_.take(unit.bytes());
  if (!region) return false;
  if (unit.on_disk()) disk_->acquire(*unit.on_disk());
  const at::Device device = memory_.device();
  // The blocks that have used the region are queued on the current stream.
  c10::Event free(device.type());
  free.record(current_stream(device));
  free.block(copies_);
  c10::Event copied(device.type());
  {
    const c10::StreamGuard guard(copies_);
    unit.copy_to(memory_.narrow(0, *region, unit.bytes()));
    copied.record(copies_);
  }
  if (unit.on_disk()) {
    copied.synchronize();
    disk_->release(*unit.on_disk());
  }
  loaded_.push_back({to_load_, *region, std::move(copied)});
  to_load_ = (to_load_ + 1) % units_.size();
  return true;
}

void DeviceStream::load_ahead() {
  while (true) {
    const std::optional<size_t>& on_disk = units_[to_load_]->on_disk();
    if (on_disk && !disk_->is_ready(*on_disk)) return;
    if (!load()) return;
  }
}

}  // namespace accel
