// Downloads of files over HTTP: verified, atomic and resumable.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.h"

namespace accel {

struct HttpQuery {
  std::string url;  ///< http or https
  std::vector<std::string> headers = {};
};

struct HttpResult {
  int status = 0;                              ///< 0: no response
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string error;                           ///< reason of a failed transfer; "" when complete
};

class HttpClient {
 public:
  /// Receives the next bytes of a body; status and headers are known by then. False stops the
  /// transfer.
  using Sink = std::function<bool(const HttpResult& so_far, std::string_view bytes)>;

  virtual ~HttpClient() = default;

  /// Does not follow redirects: the caller decides where to send tokens.
  virtual HttpResult get(const HttpQuery& query, const Sink& sink) = 0;
};

/// A client over libcurl, loaded on first use. Throws IoError without libcurl.
std::unique_ptr<HttpClient> make_curl_client();

/// A token for one server.
struct Credential {
  std::string origin;  ///< "https://huggingface.co": no other server is sent the token
  std::string token;   ///< empty: none
};

/// A file to download and its expected size and digest.
struct FetchRequest {
  std::string url;
  std::filesystem::path target;
  std::string name;             ///< in messages
  std::optional<int64_t> size;  ///< in bytes
  Digest::Kind digest = Digest::Kind::kSha256;
  std::string digest_hex;  ///< empty: unknown
  bool git_blob = false;   ///< the digest is of a git blob: header and file
};

/// Retries and progress messages.
struct RetryPolicy {
  int attempts = 5;                      ///< consecutive attempts without progress
  std::chrono::milliseconds pause{500};  ///< before the second; doubles each time
  /// Called before each file.
  std::function<void(const std::string& line)> say = nullptr;
};

/// A 4xx response; status and headers contain the reason.
class FetchRefused : public std::runtime_error {
 public:
  explicit FetchRefused(HttpResult result)
      : std::runtime_error("refused with " + std::to_string(result.status)),
        result_(std::move(result)) {}
  const HttpResult& result() const { return result_; }

 private:
  HttpResult result_;
};

/// "https://a.b:8" of a URL; "" when it is none.
std::string origin_of_url(const std::string& url);

/// Downloads the file to `target` through `target`.incomplete, which is kept for a later resume. An
/// existing `target` is used as it is. Of several processes one downloads and the others wait.
/// Throws IoError when all attempts fail, DataError for a wrong size or digest (the file is
/// deleted), FetchRefused for 4xx.
void fetch_file(HttpClient& client, const FetchRequest& request, const Credential& credential,
                const RetryPolicy& retry = {});

/// The body of a response of at most `cap` bytes. Follows redirects. Throws as above.
std::string fetch_text(HttpClient& client, const std::string& url, size_t cap,
                       const Credential& credential, const RetryPolicy& retry = {});

}  // namespace accel
