// Reading from a server, in as many bytes as it likes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

struct HttpQuery {
  std::string url;  ///< http or https
  std::vector<std::string> headers = {};
};

struct HttpResult {
  int status = 0;                              ///< 0: there was no answer
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string error;                           ///< why it came no further; "" when it is whole
};

class HttpClient {
 public:
  /// Takes the next bytes of the body of an answer whose status and headers are known by then.
  /// False: no more are wanted.
  using Sink = std::function<bool(const HttpResult& so_far, std::string_view bytes)>;

  virtual ~HttpClient() = default;

  /// Redirects are answers like others: where to go on, and with which secrets, is the caller's.
  virtual HttpResult get(const HttpQuery& query, const Sink& sink) = 0;
};

/// By libcurl, loaded when first asked for. Throws IoError when the machine has none.
std::unique_ptr<HttpClient> make_curl_client();

}  // namespace accel
