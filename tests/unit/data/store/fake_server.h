// A server of objects with range requests, and with all that goes wrong between it and a run.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "data/store/object_store.h"

namespace accel {

/// What happens to one request instead of an answer.
struct Mishap {
  int status = 0;         ///< this answer; 0: the one below
  int64_t cut = -1;       ///< the connection breaks after so many bytes
  std::string etag = {};  ///< another version
  int64_t shift = 0;      ///< the range begins so many bytes later
  std::string more = {};  ///< bytes behind the range
  int64_t less = 0;       ///< bytes that the answer lacks, without an error
  bool no_range = false;  ///< the whole object with 200
  std::string body = {};  ///< of a `status`
  std::map<std::string, std::string> headers = {};
  bool no_version = false;  ///< no ETag
  int64_t grown = 0;        ///< bytes that the object has more
};

class FakeServer {
 public:
  std::map<std::string, std::string> objects;  ///< by URL
  std::map<std::string, std::deque<Mishap>> mishaps;

  HttpResult get(const HttpQuery& query, const HttpClient::Sink& sink) {
    std::string range;
    for (const std::string& line : query.headers) {
      if (line.starts_with("range: bytes=")) range = line.substr(13);
      if (line.starts_with("Authorization: ")) authorizations_.insert({query.url, line});
    }
    Mishap mishap;
    std::string content;
    {
      const std::lock_guard lock(mutex_);
      log_.push_back(query.url + (range.empty() ? "" : " " + range));
      auto& queue = mishaps[query.url];
      if (!queue.empty()) {
        mishap = queue.front();
        queue.pop_front();
      }
      const auto found = objects.find(query.url);
      if (found == objects.end() && mishap.status == 0) return {404, {}, ""};
      if (found != objects.end()) content = found->second;
    }
    if (mishap.status != 0) {
      HttpResult refusal{mishap.status, mishap.headers, ""};
      if (!mishap.body.empty()) sink(refusal, mishap.body);
      return refusal;
    }
    return answer(content, range, mishap, sink);
  }

  /// Of the next requests for `url`, in turn.
  void set_mishaps(const std::string& url, std::deque<Mishap> of_requests) {
    const std::lock_guard lock(mutex_);
    mishaps[url] = std::move(of_requests);
  }
  std::vector<std::string> take_log() {
    const std::lock_guard lock(mutex_);
    return std::exchange(log_, {});
  }
  const std::map<std::string, std::string>& authorizations() const { return authorizations_; }

  StoreContext context(int64_t retries = 2) {
    StoreContext out;
    out.policy = {.retries = retries,
                  .pause = std::chrono::milliseconds(1),
                  .longest_pause = std::chrono::milliseconds(2)};
    out.make_client = [this] { return std::make_unique<Client>(*this); };
    out.environment = [](const std::string&) { return std::nullopt; };
    return out;
  }

 private:
  class Client final : public HttpClient {
   public:
    explicit Client(FakeServer& server) : server_(server) {}
    HttpResult perform(const HttpQuery& query, const Sink& sink) override {
      return server_.get(query, sink);
    }

   private:
    FakeServer& server_;
  };

  static HttpResult answer(const std::string& content, const std::string& range,
                           const Mishap& mishap, const HttpClient::Sink& sink) {
    HttpResult result{200, {{"etag", mishap.etag.empty() ? "\"v1\"" : mishap.etag}}, ""};
    if (mishap.no_version) result.headers.clear();
    std::string body = content;
    if (!range.empty() && !mishap.no_range) {
      const auto first = std::stoul(range);
      const auto last = std::min(std::stoul(range.substr(range.find('-') + 1)), content.size() - 1);
      if (first >= content.size()) return {416, {}, ""};
      result.status = 206;
      result.headers["content-range"] =
          "bytes " + std::to_string(first + static_cast<size_t>(mishap.shift)) + "-" +
          std::to_string(last) + "/" +
          std::to_string(content.size() + static_cast<size_t>(mishap.grown));
      body = content.substr(first, last - first + 1) + mishap.more;
      body.resize(body.size() - static_cast<size_t>(mishap.less));
    }
    if (mishap.cut >= 0) {
      result.error = "Transferred a partial file";
      body.resize(std::min(body.size(), static_cast<size_t>(mishap.cut)));
    }
    const size_t chunk = body.size() < 1000 ? 5 : size_t{1} << 16;
    for (size_t at = 0; at < body.size(); at += chunk) {
      if (sink(result, std::string_view(body).substr(at, chunk))) continue;
      result.error = "Failed writing received data to disk/application";
      break;
    }
    return result;
  }

  std::mutex mutex_;
  std::vector<std::string> log_;
  std::map<std::string, std::string> authorizations_;
};

}  // namespace accel
