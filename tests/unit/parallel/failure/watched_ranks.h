// A device whose collectives complete when a test wants it, and ranks that watch it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <regex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "tests/unit/parallel/ranks.h"

namespace accel {

/// As NCCL's: the host does not wait for it.
class DeviceWork final : public c10d::Work {
 public:
  explicit DeviceWork(std::function<bool()> is_completed)
      : is_completed_(std::move(is_completed)) {}
  bool isCompleted() override { return is_completed_(); }
  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }

 private:
  std::function<bool()> is_completed_;
};

/// What a collective of `elements` does: returns whether it has completed.
using DeviceRule = std::function<bool(int64_t elements)>;

class DeviceBackend final : public c10d::Backend {
 public:
  DeviceBackend(int rank, int world, DeviceRule rule, bool coalesces)
      : Backend(rank, world), rule_(std::move(rule)), coalesces_(coalesces) {}

  const std::string getBackendName() const override { return "device"; }
  bool supportsCoalescing() const override { return coalesces_; }
  void startCoalescing() override { coalesced_ = 0; }
  c10::intrusive_ptr<c10d::Work> endCoalescing() override { return work_of(coalesced_); }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& /*options*/) override {
    return work_of(tensors.at(0).numel());
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& /*options*/) override {
    return work_of(tensors.at(0).numel());
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int /*from*/,
                                      int /*tag*/) override {
    coalesced_ += tensors.at(0).numel();
    return coalesces_ ? c10::intrusive_ptr<c10d::Work>() : work_of(tensors.at(0).numel());
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_of(int64_t elements) const {
    return c10::make_intrusive<DeviceWork>([rule = rule_, elements] { return rule(elements); });
  }

  DeviceRule rule_;
  bool coalesces_;
  int64_t coalesced_ = 0;
};

/// Of collectives that never complete, and of others that have completed at once.
constexpr int64_t kHangs = 4, kCompletes = 2;

inline bool completes_unless_it_hangs(int64_t elements) {
  return elements != kHangs;
}

/// A float tensor of the device.
inline at::Tensor on_device(int64_t elements) {
  return at::empty({elements}, at::kMeta);
}

/// The errors of the ranks' watches.
class HangReports {
 public:
  void add(int64_t rank, const Error& error) {
    const std::lock_guard lock(mutex_);
    // How long it has waited depends on the machine's load.
    errors_.emplace(rank,
                    Error(error.code(),
                          std::regex_replace(error.what(), std::regex("', [0-9]+ s, "), "', N s, "),
                          error.hint()));
    changed_.notify_all();
  }
  /// Waits for the reports of `count` ranks.
  void await(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(kPatience),
                      [&] { return errors_.size() >= count; });
  }
  /// After all ranks have ended.
  const std::map<int64_t, Error>& errors() const { return errors_; }
  /// Of `rank`; "" without.
  std::string text(int64_t rank) const {
    const auto found = errors_.find(rank);
    return found == errors_.end() ? "" : found->second.what();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Error> errors_;
};

/// Requests of ranks in step 7 that wait a second for collectives.
inline std::vector<JoinRequest> watched_requests(
    int64_t world, HangReports& reports, const DeviceRule& rule = &completes_unless_it_hangs,
    bool coalesces = false) {
  std::vector<JoinRequest> requests = requests_of(world);
  for (JoinRequest& request : requests) {
    request.device_timeout = 1;
    request.step = [] { return int64_t{7}; };
    request.device_backend = [rule, coalesces](const StorePtr&,
                                               const GroupOptions& options) -> BackendPtr {
      return c10::make_intrusive<DeviceBackend>(static_cast<int>(options.rank),
                                                static_cast<int>(options.world), rule, coalesces);
    };
    request.on_hang = [&reports, rank = request.rank](const Error& error) {
      reports.add(rank, error);
    };
  }
  return requests;
}

}  // namespace accel
