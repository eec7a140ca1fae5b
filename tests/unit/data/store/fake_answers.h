// A server that answers by method and URL, for sources of credentials.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/http_client.h"

namespace accel {

struct FakeAnswer {
  int status = 0;  ///< 0: no connection
  std::string body = {};
};

class FakeAnswers {
 public:
  std::map<std::string, FakeAnswer> pages;  ///< by "GET http://..."; others have no connection

  ClientFactory factory() {
    return [this] { return std::make_unique<Client>(*this); };
  }
  /// "GET URL | header | ...| body" of each request since the last call.
  std::vector<std::string> take_log() { return std::exchange(log_, {}); }

 private:
  class Client final : public HttpClient {
   public:
    explicit Client(FakeAnswers& server) : server_(server) {}
    HttpResult perform(const HttpQuery& query, const Sink& sink) override {
      const std::string name = query.method + " " + query.url;
      std::string entry = name;
      for (const std::string& header : query.headers) entry += " | " + header;
      if (!query.body.empty()) entry += " | " + std::string(as_text(query.body));
      server_.log_.push_back(entry);
      const auto found = server_.pages.find(name);
      if (found == server_.pages.end() || found->second.status == 0) {
        return {0, {}, "Couldn't connect to server"};
      }
      const HttpResult result{found->second.status, {}, ""};
      sink(result, found->second.body);
      return result;
    }

   private:
    FakeAnswers& server_;
  };

  std::vector<std::string> log_;
};

}  // namespace accel
