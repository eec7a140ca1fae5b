// A web of a few files, with all that goes wrong on the way to them.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runner/fetch/fetch_file.h"

namespace accel {

/// What one server does with one address.
struct FakePage {
  std::string body;
  int status = 200;
  std::map<std::string, std::string> headers = {};
  bool ranges = true;  ///< whether it answers a part when asked for one
  std::vector<size_t> breaks =
      {};            ///< after so many bytes of an answer the connection breaks, in turn
  int refusals = 0;  ///< so many answers are 503 first
};

class FakeWeb final : public HttpClient {
 public:
  std::map<std::string, FakePage> pages;
  std::vector<std::string> log;  ///< "URL" or "URL from 5", with " and TOKEN" where one was sent

  HttpResult perform(const HttpQuery& query, const Sink& sink) override {
    size_t from = 0;
    std::string line = query.url;
    for (const std::string& header : query.headers) {
      if (header.starts_with("Range: bytes=")) from = std::stoul(header.substr(13));
    }
    if (from > 0) line += " from " + std::to_string(from);
    for (const std::string& header : query.headers) {
      if (header.starts_with("Authorization: ")) line += " and " + header.substr(15);
    }
    log.push_back(line);
    const auto found = pages.find(query.url);
    if (found == pages.end()) return {0, {}, "Couldn't connect to server"};
    FakePage& page = found->second;
    if (page.refusals > 0) return --page.refusals, HttpResult{503, {}, ""};
    return answer(page, from, sink);
  }

 private:
  static HttpResult answer(FakePage& page, size_t from, const Sink& sink) {
    HttpResult result{page.status, page.headers, ""};
    std::string body = page.body;
    if (from > 0 && page.ranges && page.status == 200) {
      if (from >= body.size()) return {416, {}, ""};
      result.status = 206;
      result.headers["content-range"] = "bytes " + std::to_string(from) + "-" +
                                        std::to_string(body.size() - 1) + "/" +
                                        std::to_string(body.size());
      body = body.substr(from);
    }
    if (!page.breaks.empty()) {
      result.error = "Transferred a partial file";
      body = body.substr(0, page.breaks.front());
      page.breaks.erase(page.breaks.begin());
    }
    for (size_t at = 0; at < body.size(); at += 3) {
      if (sink(result, std::string_view(body).substr(at, 3))) continue;
      result.error = "Failed writing received data to disk/application";
      break;
    }
    return result;
  }
};

inline RetryPolicy no_pause() {
  return {.attempts = 3, .pause = std::chrono::milliseconds(0)};
}

}  // namespace accel
