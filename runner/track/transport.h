// One HTTP request at a time, waited for by one thread and never longer than it likes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "runner/track/uplink.h"

namespace accel {

class Transport {
 public:
  virtual ~Transport() = default;

  /// Begins; the one before must have been answered or cancelled.
  virtual void start(const HttpRequest& request) = 0;
  /// Waits for an answer, for `most`, or until wake(), also when nothing was started.
  virtual std::optional<HttpReply> wait(std::chrono::milliseconds most) = 0;
  /// Ends a wait() that is under way or else the next one. From any thread.
  virtual void wake() = 0;
  virtual void cancel() = 0;
};

using MakeTransport = std::function<std::unique_ptr<Transport>()>;

/// By libcurl, loaded when first asked for. Throws IoError when the machine has none.
std::unique_ptr<Transport> make_curl_transport();

}  // namespace accel
