// HTTP over libcurl, for downloads, uploads and data in object stores.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"

namespace accel {

struct HttpQuery {
  std::string url;  ///< http or https
  std::vector<std::string> headers = {};
  std::string method = "GET";
  ByteSpan body = {};         ///< of other methods; must outlive the transfer
  long stall_seconds = 60;    ///< a transfer without a byte for so long fails
  long connect_seconds = 20;  ///< for the connection to the server
  bool netrc = false;         ///< name and password of the server from ~/.netrc
  std::stop_token stop = {};  ///< ends the transfer with an error
};

struct HttpResult {
  int status = 0;                              ///< 0: no response
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string error;                           ///< reason of a failed transfer; "" when complete

  /// The value of a header, by its name in lower case; "" without it.
  std::string header(const std::string& name) const;
};

class HttpClient {
 public:
  /// Receives the next bytes of a body; status and headers are known by then. False stops the
  /// transfer.
  using Sink = std::function<bool(const HttpResult& so_far, std::string_view bytes)>;

  virtual ~HttpClient() = default;

  /// Does not follow redirects: the caller decides where to send tokens.
  virtual HttpResult perform(const HttpQuery& query, const Sink& sink) = 0;
};

/// Makes a client for one thread.
using ClientFactory = std::function<std::unique_ptr<HttpClient>()>;

/// A client over libcurl, for one thread at a time. Without libcurl throws an IoError that names
/// its `user` and proposes an `alternative`.
std::unique_ptr<HttpClient> make_curl_client(const char* user, const char* alternative);

/// A token for one server.
struct Credential {
  std::string origin;  ///< "https://huggingface.co": no other server is sent the token
  std::string token;   ///< empty: none
};

/// Follows redirects, with the same method and body, and sends the token only to its server. Throws
/// IoError for too many redirects and for one from https to http.
HttpResult perform_following(HttpClient& client, HttpQuery query, const Credential& credential,
                             const HttpClient::Sink& sink);

/// Whether a retry may succeed.
bool is_transient(const HttpResult& result);

/// The first byte and the size of the object in "Content-Range: bytes 5-9/10".
struct ContentRange {
  int64_t first = 0;
  int64_t size = 0;  ///< -1: unknown
};

/// None without the header or for another form of it.
std::optional<ContentRange> content_range(const HttpResult& result);

}  // namespace accel
