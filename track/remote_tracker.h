// Trackers with a server: their requests, the HTTP transport and the sender.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace accel {

struct HttpRequest {
  std::string method = "POST";
  std::string url;
  std::vector<std::string> headers;  ///< "Content-Type: application/json"
  std::string body;
  std::string ca_file = {};  ///< certificates of authorities; empty: the system's
};

struct HttpReply {
  int status = 0;  ///< HTTP status; 0: no response, see `error`
  std::string body;
  std::string error;  ///< reason of a missing response

  bool ok() const { return status >= 200 && status < 300; }
  /// No response, a timeout, too many requests or a server error.
  bool is_retryable() const {
    return status == 0 || status == 408 || status == 429 || status >= 500;
  }
};

/// The sending side of a Tracker. Entries are on the disk before pending() reports them, so that
/// none is lost while the server is unreachable. Called by the trackers' thread only.
class RemoteTracker {
 public:
  /// Consequences of a response.
  struct Verdict {
    std::string warning;  ///< printed once; empty: none
    bool stop = false;    ///< nothing more can be sent until the run is resumed
  };

  virtual ~RemoteTracker() = default;

  /// Whether it has a server; if not, no other function is called.
  virtual bool is_online() const { return true; }
  virtual bool pending() const = 0;
  /// The next request; called again after a retryable response.
  virtual HttpRequest next() = 0;
  /// Handles a response that is not retryable.
  virtual Verdict replied(const HttpReply& reply) = 0;
  /// "12 entries, which are kept in 'FILE'"; empty when all were sent.
  virtual std::string unsent_summary() const = 0;
};

/// HTTP transport of one request at a time, with bounded waits.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Starts a request; the previous one must be answered or cancelled.
  virtual void start(const HttpRequest& request) = 0;
  /// Waits for the response, at most `timeout` or until wake(), also without a request.
  virtual std::optional<HttpReply> wait(std::chrono::milliseconds timeout) = 0;
  /// Ends the current wait(), or else the next one. Thread-safe.
  virtual void wake() = 0;
  virtual void cancel() = 0;
};

using MakeTransport = std::function<std::unique_ptr<Transport>()>;

/// A transport by libcurl, loaded at first use. Throws IoError without libcurl.
std::unique_ptr<Transport> make_curl_transport();

/// Exponential backoff while a server does not respond.
struct RetryTimes {
  std::chrono::milliseconds first{1000};
  std::chrono::milliseconds most{60000};
  const char* end = "the run ends";  ///< of the retries, for messages
};

/// Used by one thread, except wake(). Warns of an outage once and retries with backoff.
class Sender {
 public:
  using Report = std::function<void(const std::string&)>;

  Sender(MakeTransport make, RetryTimes times, Report report)
      : make_(std::move(make)), times_(times), report_(std::move(report)) {}

  /// `remote` must outlive the sender. Throws IoError without a transport.
  void add(const std::string& tracker, RemoteTracker& remote);

  using Clock = std::chrono::steady_clock;
  /// Whether a request is in flight or pending.
  bool busy() const { return busy_before(Clock::time_point::max()); }
  /// As busy(), for requests due before `end`; false after `end`.
  bool busy_before(Clock::time_point end) const;
  /// Sends a due request and waits for its response, at most `timeout` or until wake().
  void poll(std::chrono::milliseconds timeout);
  /// Ends the current poll(). Thread-safe.
  void wake();
  /// Retries all pending requests now; an unreachable server gets this one attempt.
  void retry_now();
  /// Cancels the request in flight and reports unsent entries.
  void close();

 private:
  struct Queue {
    std::string tracker;
    RemoteTracker* remote;
    std::chrono::milliseconds delay{0};  ///< of the next retry; 0: the last request succeeded
    Clock::time_point due = {};
    int failures = 0;  ///< consecutive
    bool last_attempt = false;
    bool stopped = false;
    std::string last_warning = {};
  };

  void start_one(Clock::time_point now);
  std::chrono::milliseconds until_due(Clock::time_point now) const;
  void handle(Queue& queue, const HttpReply& reply);
  void warn(Queue& queue, const std::string& message);
  /// Calls the remote; an exception stops its queue.
  template <class Work>
  void guarded(Queue& queue, Work work);

  MakeTransport make_;
  RetryTimes times_;
  Report report_;
  std::unique_ptr<Transport> transport_;
  std::vector<Queue> queues_;
  std::string url_;        ///< of the request in flight
  size_t next_queue_ = 0;  ///< round robin
  Queue* in_flight_ = nullptr;
};

}  // namespace accel
