#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "parallel/c10d_group.h"

namespace accel {
namespace {

using Milliseconds = std::chrono::milliseconds;
using DevicePtr = std::shared_ptr<::gloo::transport::Device>;

constexpr int kAttempts = 3;
/// Limit of the exchange over new connections, in which the slowest rank still connects.
constexpr Milliseconds kExchange = std::chrono::seconds(60);
/// How long a rank waits for the reports of the others, which may be in that exchange.
constexpr Milliseconds kReports = kExchange + std::chrono::seconds(10);

/// One attempt of all ranks of a group to connect.
///
/// Gloo listens at a port of the system's choice and takes a connection for that of a rank by a
/// small number alone. A process that still tries to reach the earlier owner of the port, such as a
/// rank of another run, can therefore take the place of a rank.
class Attempt {
 public:
  Attempt(StorePtr store, DevicePtr device, const GroupOptions& options)
      : store_(std::move(store)),
        device_(std::move(device)),
        options_(options),
        timeout_(static_cast<int64_t>(options.timeout * 1e3)) {}

  /// The verified connections, or null when all ranks must try again. Throws std::exception for
  /// another failure.
  BackendPtr run() {
    BackendPtr backend;
    try {
      if (options_.rank == 0) store_->set(kNumber, std::to_string(std::random_device()()));
      auto gloo = c10d::ProcessGroupGloo::Options::create(timeout_);
      gloo->devices.push_back(device_);
      backend = c10::make_intrusive<c10d::ProcessGroupGloo>(store_, static_cast<int>(options_.rank),
                                                            static_cast<int>(options_.world), gloo);
      verify(*backend);
    } catch (const std::exception& error) {
      // Closes connections that no rank has taken: the other ranks notice.
      backend = nullptr;
      device_ = nullptr;
      failure_ = c10d_message(error.what());
    }
    return all_connected(backend != nullptr) ? backend : nullptr;
  }

  /// Why this rank failed; empty for a failure of another rank.
  const std::string& failure() const { return failure_; }

 private:
  static constexpr auto kNumber = "number", kResult = "result";

  /// Every connection leads to a rank of this group: both ends send the group's number.
  void verify(c10d::Backend& backend) {
    const int64_t number = std::stoll(store_->get_to_str(kNumber));
    at::Tensor sent = at::full({options_.world}, number, at::kLong);
    at::Tensor received = at::zeros_like(sent);
    std::vector<int64_t> equal_sizes;
    c10d::AllToAllOptions limit;
    limit.timeout = std::min(timeout_, kExchange);
    backend.alltoall_base(received, sent, equal_sizes, equal_sizes, limit)->wait();
    if (!received.equal(sent)) throw std::runtime_error("another program answers for a rank");
  }

  /// Reports this rank's result and waits for those of all.
  bool all_connected(bool connected) {
    constexpr auto kConnected = "connected", kRepeat = "repeat", kEnd = "end";
    if (!connected) store_->add("failed", 1);
    if (store_->add("reported", 1) == options_.world) {
      store_->set(kResult, store_->add("failed", 0) == 0 ? kConnected : kRepeat);
    }
    try {
      store_->wait({kResult}, std::min(timeout_, kReports));
    } catch (const std::exception&) {
      store_->set(kResult, kEnd);
    }
    const std::string result = store_->get_to_str(kResult);
    if (result == kEnd) throw std::runtime_error(connected ? "another rank cannot" : failure_);
    return result == kConnected;
  }

  StorePtr store_;
  DevicePtr device_;  ///< null after a failure
  const GroupOptions& options_;
  Milliseconds timeout_;
  std::string failure_ = {};
};

}  // namespace

void throw_unconnected(const GroupOptions& options, const std::string& why) {
  throw Error(ExitCode::kRank,
              text("rank {} cannot connect to the others from '{}': {}", options.global_rank,
                   options.host, why),
              "allow connections between the machines on all ports");
}

BackendPtr make_gloo_backend(const StorePtr& store, const GroupOptions& options) {
  try {
    for (int number = 1;; ++number) {
      const auto name = "attempt/" + std::to_string(number);
      // At another port each time.
      Attempt attempt(c10::make_intrusive<c10d::PrefixStore>(name, store),
                      c10d::ProcessGroupGloo::createDeviceForHostname(options.host), options);
      if (BackendPtr backend = attempt.run()) return backend;
      const bool own = !attempt.failure().empty();
      if (number == kAttempts) {
        throw std::runtime_error(own ? attempt.failure() : "another rank cannot");
      }
      if (own) {
        warn(text("rank {} connects to the others again: {}", options.global_rank,
                  attempt.failure()));
      }
    }
  } catch (const std::exception& error) {
    throw_unconnected(options, c10d_message(error.what()));
  }
}

}  // namespace accel
