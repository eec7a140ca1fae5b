// A network without a network: a function answers each request.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "track/remote_tracker.h"

namespace accel {

/// What the test and the thread under test both see.
struct FakeServer {
  std::function<std::optional<HttpReply>(const HttpRequest&)> answer;  ///< null: it never answers

  std::vector<HttpRequest> requests() const {
    const std::lock_guard lock(mutex);
    return seen;
  }

  mutable std::mutex mutex;
  std::vector<HttpRequest> seen;
};

class FakeTransport final : public Transport {
 public:
  explicit FakeTransport(FakeServer& server) : server_(server) {}

  void start(const HttpRequest& request) override {
    {
      const std::lock_guard lock(server_.mutex);
      server_.seen.push_back(request);
    }
    reply_ = server_.answer(request);
  }

  std::optional<HttpReply> wait(std::chrono::milliseconds most) override {
    if (!reply_) {
      std::unique_lock lock(mutex_);
      condition_.wait_for(lock, most, [this] { return woken_; });
      woken_ = false;
    }
    return std::exchange(reply_, std::nullopt);
  }

  void wake() override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    condition_.notify_one();
  }

  void cancel() override { reply_.reset(); }

 private:
  FakeServer& server_;
  std::optional<HttpReply> reply_;
  std::mutex mutex_;
  std::condition_variable condition_;
  bool woken_ = false;
};

inline MakeTransport transport_to(FakeServer& server) {
  return [&server] { return std::make_unique<FakeTransport>(server); };
}

}  // namespace accel
