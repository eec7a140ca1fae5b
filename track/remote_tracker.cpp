#include "track/remote_tracker.h"

#include <algorithm>
#include <exception>

#include "core/base/curl_library.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/url.h"

namespace accel {
namespace {

constexpr long kConnectMs = 5000;
constexpr long kRequestMs = 30000;
constexpr size_t kMaxReplyBytes = 1 << 20;

const CurlLibrary& curl() {
  return curl_library("a tracker that sends to a server", "let the tracker write files");
}

size_t take_bytes(char* data, size_t, size_t count, void* out) {
  auto* reply = static_cast<HttpReply*>(out);
  if (reply->body.size() + count > kMaxReplyBytes) return 0;  // ends the transfer
  reply->body.append(data, count);
  return count;
}

class CurlTransport final : public Transport {
 public:
  CurlTransport() : easy_(curl().easy_init()), multi_(curl().multi_init()) {
    if (!easy_ || !multi_) throw IoError("libcurl is out of memory");
  }

  ~CurlTransport() override {
    cancel();
    curl().easy_cleanup(easy_);
    curl().multi_cleanup(multi_);
  }

  void start(const HttpRequest& request) override {
    cancel();
    body_ = request.body;
    reply_ = {};
    curl().easy_reset(easy_);  // the connection stays open
    for (const std::string& line : request.headers) {
      headers_ = curl().slist_append(headers_, line.c_str());
    }
    headers_ = curl().slist_append(headers_, "Expect:");  // no 100-continue round trip
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_HTTPHEADER, headers_);
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    if (request.method != "GET") {
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body_.size()));
      set(CURLOPT_POSTFIELDS, body_.c_str());
    }
    if (!request.ca_file.empty()) set(CURLOPT_CAINFO, request.ca_file.c_str());
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
    set(CURLOPT_TIMEOUT_MS, kRequestMs);
    set(CURLOPT_USERAGENT, "accel-run");
    set(CURLOPT_WRITEFUNCTION, &take_bytes);
    set(CURLOPT_WRITEDATA, &reply_);
    curl().multi_add_handle(multi_, easy_);
    running_ = true;
  }

  std::optional<HttpReply> wait(std::chrono::milliseconds timeout) override {
    if (auto reply = perform()) return reply;
    curl().multi_poll(multi_, nullptr, 0, static_cast<int>(timeout.count()), nullptr);
    return perform();
  }

  void wake() override { curl().multi_wakeup(multi_); }

  void cancel() override {
    if (running_) curl().multi_remove_handle(multi_, easy_);
    running_ = false;
    curl().slist_free_all(headers_);
    headers_ = nullptr;
  }

 private:
  template <class T>
  void set(CURLoption option, T value) {
    curl().easy_setopt(easy_, option, value);
  }

  std::optional<HttpReply> perform() {
    if (!running_) return std::nullopt;
    int active = 0, left = 0;
    curl().multi_perform(multi_, &active);
    const CURLMsg* message = curl().multi_info_read(multi_, &left);
    if (!message || message->msg != CURLMSG_DONE) return std::nullopt;
    if (message->data.result == CURLE_OK) {
      long status = 0;
      curl().easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
      reply_.status = static_cast<int>(status);
    } else {
      reply_.error = curl().easy_strerror(message->data.result);
    }
    cancel();
    return std::move(reply_);
  }

  CURL* easy_;
  CURLM* multi_;
  curl_slist* headers_ = nullptr;
  std::string body_;
  HttpReply reply_;
  bool running_ = false;
};

}  // namespace

std::unique_ptr<Transport> make_curl_transport() {
  return std::make_unique<CurlTransport>();
}

void Sender::add(const std::string& tracker, RemoteTracker& remote) {
  if (!transport_) transport_ = make_();
  queues_.push_back({tracker, &remote});
}

bool Sender::busy_before(Clock::time_point end) const {
  if (Clock::now() >= end) return false;
  return in_flight_ || std::any_of(queues_.begin(), queues_.end(), [&](const Queue& queue) {
           return !queue.stopped && queue.due < end && queue.remote->pending();
         });
}

template <class Work>
void Sender::guarded(Queue& queue, Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    queue.stopped = true;
    warn(queue, text("stops sending: {}", error.what()));
  }
}

void Sender::poll(std::chrono::milliseconds timeout) {
  const Clock::time_point now = Clock::now();
  if (!in_flight_) start_one(now);
  const auto reply = transport_->wait(in_flight_ ? timeout : std::min(timeout, until_due(now)));
  if (!reply || !in_flight_) return;
  Queue& queue = *in_flight_;
  in_flight_ = nullptr;
  handle(queue, *reply);
}

void Sender::wake() {
  if (transport_) transport_->wake();
}

void Sender::retry_now() {
  constexpr int kUnreachable = 3;
  for (Queue& queue : queues_) {
    queue.due = {};
    queue.last_attempt = queue.failures >= kUnreachable;
  }
}

void Sender::close() {
  if (in_flight_) transport_->cancel();
  in_flight_ = nullptr;
  for (const Queue& queue : queues_) {
    const std::string unsent = queue.remote->unsent_summary();
    if (!unsent.empty()) report_(text("the tracker '{}' has not sent {}", queue.tracker, unsent));
  }
}

void Sender::start_one(Clock::time_point now) {
  for (size_t i = 0; i < queues_.size(); ++i) {
    Queue& queue = queues_[(next_queue_ + i) % queues_.size()];
    if (queue.stopped || queue.due > now || !queue.remote->pending()) continue;
    next_queue_ = (next_queue_ + i + 1) % queues_.size();
    guarded(queue, [&] {
      const HttpRequest request = queue.remote->next();
      url_ = request.url;
      transport_->start(request);
      in_flight_ = &queue;
    });
    return;
  }
}

std::chrono::milliseconds Sender::until_due(Clock::time_point now) const {
  auto most = times_.most;
  for (const Queue& queue : queues_) {
    if (queue.stopped || !queue.remote->pending()) continue;
    most = std::min(most, std::chrono::ceil<std::chrono::milliseconds>(queue.due - now));
  }
  return std::max(most, std::chrono::milliseconds(0));
}

void Sender::handle(Queue& queue, const HttpReply& reply) {
  if (reply.is_retryable()) {
    queue.delay = queue.delay.count() == 0 ? times_.first : std::min(queue.delay * 2, times_.most);
    queue.due = queue.last_attempt ? Clock::time_point::max() : Clock::now() + queue.delay;
    ++queue.failures;
    const std::string reason =
        reply.status == 0 ? reply.error : text("HTTP status {}", reply.status);
    warn(queue,
         text("cannot send to {}: {}; retrying until {}", origin_of_url(url_), reason, times_.end));
    return;
  }
  queue.delay = {};
  queue.failures = 0;
  guarded(queue, [&] {
    const RemoteTracker::Verdict verdict = queue.remote->replied(reply);
    queue.stopped = verdict.stop;
    if (!verdict.warning.empty()) warn(queue, verdict.warning);
  });
}

void Sender::warn(Queue& queue, const std::string& message) {
  if (queue.last_warning == message) return;
  queue.last_warning = message;
  report_(text("the tracker '{}' {}", queue.tracker, message));
}

}  // namespace accel
