// Downloads of files over HTTP: verified, atomic and resumable.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/digest.h"
#include "core/base/http_client.h"

namespace accel {

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

/// A client over libcurl. Throws IoError without libcurl.
std::unique_ptr<HttpClient> make_download_client();

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
