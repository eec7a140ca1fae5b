#include "runner/track/sender.h"

#include <algorithm>
#include <exception>

namespace accel {
std::string server_of(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) return url;
  const size_t start = scheme + 3;
  const size_t end = std::min(url.find('/', start), url.size());
  const size_t user = url.rfind('@', end);
  const size_t host = user == std::string::npos || user < start ? start : user + 1;
  return url.substr(0, start) + url.substr(host, end - host);
}

void Sender::add(const std::string& tracker, Uplink& uplink) {
  if (!transport_) transport_ = make_();
  lines_.push_back({tracker, &uplink});
}

bool Sender::busy_before(Clock::time_point end) const {
  if (Clock::now() >= end) return false;
  return under_way_ || std::any_of(lines_.begin(), lines_.end(), [&](const Line& line) {
           return !line.stopped && line.due < end && line.uplink->pending();
         });
}

template <class Work>
void Sender::guarded(Line& line, Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    line.stopped = true;
    tell(line, std::string("cannot go on sending: ") + error.what());
  }
}

void Sender::turn(std::chrono::milliseconds most) {
  const Clock::time_point now = Clock::now();
  if (!under_way_) start_one(now);
  const auto reply = transport_->wait(under_way_ ? most : std::min(most, until_due(now)));
  if (!reply || !under_way_) return;
  Line& line = *under_way_;
  under_way_ = nullptr;
  take(line, *reply);
}

void Sender::wake() {
  if (transport_) transport_->wake();
}

void Sender::hurry() {
  constexpr int kKnownToBeAway = 3;
  for (Line& line : lines_) {
    line.due = {};
    line.last_try = line.failures >= kKnownToBeAway;
  }
}

void Sender::close() {
  if (under_way_) transport_->cancel();
  under_way_ = nullptr;
  for (const Line& line : lines_) {
    const std::string rest = line.uplink->left_over();
    if (!rest.empty()) report_("the tracker '" + line.tracker + "' has not sent " + rest);
  }
}

void Sender::start_one(Clock::time_point now) {
  for (size_t i = 0; i < lines_.size(); ++i) {
    Line& line = lines_[(turn_of_ + i) % lines_.size()];
    if (line.stopped || line.due > now || !line.uplink->pending()) continue;
    turn_of_ = (turn_of_ + i + 1) % lines_.size();
    guarded(line, [&] {
      const HttpRequest request = line.uplink->next();
      url_ = request.url;
      transport_->start(request);
      under_way_ = &line;
    });
    return;
  }
}

std::chrono::milliseconds Sender::until_due(Clock::time_point now) const {
  auto most = times_.most;
  for (const Line& line : lines_) {
    if (line.stopped || !line.uplink->pending()) continue;
    most = std::min(most, std::chrono::ceil<std::chrono::milliseconds>(line.due - now));
  }
  return std::max(most, std::chrono::milliseconds(0));
}

void Sender::take(Line& line, const HttpReply& reply) {
  if (reply.worth_a_retry()) {
    line.pause = line.pause.count() == 0 ? times_.first : std::min(line.pause * 2, times_.most);
    line.due = line.last_try ? Clock::time_point::max() : Clock::now() + line.pause;
    ++line.failures;
    const std::string why =
        reply.status == 0 ? reply.error : "it answered " + std::to_string(reply.status);
    tell(line, "cannot send to " + server_of(url_) + ": " + why +
                   "; it is tried again while the run lasts");
    return;
  }
  line.pause = {};
  line.failures = 0;
  guarded(line, [&] {
    const Uplink::Verdict verdict = line.uplink->replied(reply);
    line.stopped = verdict.stop;
    if (!verdict.warning.empty()) tell(line, verdict.warning);
  });
}

void Sender::tell(Line& line, const std::string& what) {
  if (line.told == what) return;
  line.told = what;
  report_("the tracker '" + line.tracker + "' " + what);
}

}  // namespace accel
