// What a piece of code takes in memory for tensors.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <map>
#include <memory>

namespace accel {

/// Counts the tensors that a thread makes and frees.
class MemoryMeter final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    now_ += bytes;
    peak_ = std::max(peak_, now_);
    if (bytes <= 0) return;
    ++counts_[bytes];
  }
  bool memoryProfilingEnabled() const override { return true; }

  /// Bytes at most at a time, beyond those at the start.
  int64_t peak() const { return peak_; }
  /// Number of tensors of `bytes` bytes that were allocated.
  int count(size_t bytes) const {
    const auto found = counts_.find(static_cast<int64_t>(bytes));
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  int64_t now_ = 0, peak_ = 0;
  std::map<int64_t, int> counts_;
};

/// What this thread made of tensors in `work`.
template <class Work>
MemoryMeter memory_of(Work work) {
  const auto meter = std::make_shared<MemoryMeter>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter);
    work();
  }
  return *meter;
}

}  // namespace accel
