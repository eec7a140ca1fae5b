// Sends what trackers have for their servers, one request after the other.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runner/track/transport.h"
#include "runner/track/uplink.h"

namespace accel {

/// "http://host:5000" of a URL, without a user name or password: what messages may show.
std::string server_of(const std::string& url);

/// Times between tries while a server does not answer: doubled each time.
struct RetryTimes {
  std::chrono::milliseconds first{1000};
  std::chrono::milliseconds most{60000};
};

/// Used by one thread, but for wake(). An outage is told of once, and tried again ever more seldom.
class Sender {
 public:
  using Report = std::function<void(const std::string&)>;

  Sender(MakeTransport make, RetryTimes times, Report report)
      : make_(std::move(make)), times_(times), report_(std::move(report)) {}

  /// `uplink` must outlive this. Throws IoError when there is no way to send at all.
  void add(const std::string& tracker, Uplink& uplink);

  using Clock = std::chrono::steady_clock;
  /// Whether anything is under way or waits for its time.
  bool busy() const { return busy_before(Clock::time_point::max()); }
  /// As busy(), for what is due before `end`; false once `end` is past.
  bool busy_before(Clock::time_point end) const;
  /// Sends what is due and waits for an answer, at most so long or until wake().
  void turn(std::chrono::milliseconds most);
  /// Ends a turn() under way. From any thread.
  void wake();
  /// Tries everything at once that waits for its time; a server known to be away has this one try.
  void hurry();
  /// Gives up what is under way and tells what was not sent.
  void close();

 private:
  struct Line {
    std::string tracker;
    Uplink* uplink;
    std::chrono::milliseconds pause{0};  ///< 0: the last try was answered
    Clock::time_point due = {};
    int failures = 0;  ///< in a row
    bool last_try = false;
    bool stopped = false;
    std::string told = {};  ///< the last warning
  };

  void start_one(Clock::time_point now);
  std::chrono::milliseconds until_due(Clock::time_point now) const;
  void take(Line& line, const HttpReply& reply);
  void tell(Line& line, const std::string& what);
  /// Calls the uplink; what it throws stops the line.
  template <class Work>
  void guarded(Line& line, Work work);

  MakeTransport make_;
  RetryTimes times_;
  Report report_;
  std::unique_ptr<Transport> transport_;
  std::vector<Line> lines_;
  std::string url_;     ///< of the request under way
  size_t turn_of_ = 0;  ///< the line that is asked first
  Line* under_way_ = nullptr;
};

}  // namespace accel
