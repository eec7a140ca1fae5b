// Files from the web: whole, checked, and gone on with where an earlier attempt broke off.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "runner/fetch/http_client.h"
#include "runner/formats/digest.h"

namespace accel {

/// A secret for one server.
struct Credential {
  std::string origin;  ///< "https://huggingface.co": no other server is sent the token
  std::string token;   ///< empty: none
};

/// What a file must be.
struct FetchOrder {
  std::string url;
  std::filesystem::path target;
  std::string name;             ///< as messages name it
  std::optional<int64_t> size;  ///< in bytes
  Digest::Kind digest = Digest::Kind::kSha256;
  std::string digest_hex;  ///< empty: not known
  bool git_blob = false;   ///< the digest is git's, of a header and the file
};

/// How patient it is.
struct FetchPatience {
  int attempts = 5;                      ///< in a row without a byte
  std::chrono::milliseconds pause{500};  ///< before the second; doubles each time
  /// Told of each file before it comes.
  std::function<void(const std::string& line)> say = nullptr;
};

/// A server's refusal: its status and headers say why, which the caller knows to read.
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

/// Puts the file at `target`, through `target`.incomplete, which is kept when it breaks off. What
/// is at `target` already is taken as it is. Of several processes one fetches and the others wait.
/// Throws IoError when server or disk fail for good, DataError for a file that is not what it must
/// be (nothing is kept of it), FetchRefused for 4xx.
void fetch_file(HttpClient& client, const FetchOrder& order, const Credential& credential,
                const FetchPatience& patience = {});

/// The body of an answer of at most `cap` bytes, redirects followed. Throws as above.
std::string fetch_text(HttpClient& client, const std::string& url, size_t cap,
                       const Credential& credential, const FetchPatience& patience = {});

}  // namespace accel
