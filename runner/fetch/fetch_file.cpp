#include "runner/fetch/fetch_file.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <thread>

#include "core/base/activity.h"
#include "core/base/curl_library.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/owned_fd.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr long kConnectSeconds = 20;
constexpr long kStalledSeconds = 60;  ///< without a byte
constexpr size_t kMaxHeaders = 200;

const CurlLibrary& curl() {
  return curl_library("a download", "copy the files by other means");
}

/// A response during its transfer.
struct Incoming {
  const HttpClient::Sink& sink;
  CURL* easy;
  HttpResult result = {};
};

size_t take_header(char* data, size_t, size_t count, void* out) {
  auto& incoming = *static_cast<Incoming*>(out);
  std::string line(data, count);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  if (line.starts_with("HTTP/")) incoming.result.headers.clear();  // after a "100 Continue"
  const size_t colon = line.find(':');
  if (colon == line.npos || incoming.result.headers.size() >= kMaxHeaders) return count;
  std::string name = line.substr(0, colon);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const size_t value = std::min(line.find_first_not_of(" \t", colon + 1), line.size());
  incoming.result.headers[name] = line.substr(value);
  return count;
}

size_t take_body(char* data, size_t, size_t count, void* out) {
  auto& incoming = *static_cast<Incoming*>(out);
  if (incoming.result.status == 0) {
    long status = 0;
    curl().easy_getinfo(incoming.easy, CURLINFO_RESPONSE_CODE, &status);
    incoming.result.status = static_cast<int>(status);
  }
  return incoming.sink(incoming.result, {data, count}) ? count : 0;  // 0 ends the transfer
}

class CurlClient final : public HttpClient {
 public:
  CurlClient() : easy_(curl().easy_init()) {
    if (!easy_) throw IoError("libcurl is out of memory");
  }
  ~CurlClient() override { curl().easy_cleanup(easy_); }

  HttpResult get(const HttpQuery& query, const Sink& sink) override {
    if (!query.url.starts_with("http://") && !query.url.starts_with("https://")) {
      return {0, {}, text("'{}' is not an http or https URL", query.url)};
    }
    Incoming incoming{sink, easy_};
    curl().easy_reset(easy_);  // the connection stays open
    curl_slist* headers = nullptr;
    for (const std::string& line : query.headers) {
      headers = curl().slist_append(headers, line.c_str());
    }
    set(CURLOPT_URL, query.url.c_str());
    set(CURLOPT_HTTPHEADER, headers);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, kStalledSeconds);
    set(CURLOPT_USERAGENT, "accel-run");
    set(CURLOPT_HEADERFUNCTION, &take_header);
    set(CURLOPT_HEADERDATA, &incoming);
    set(CURLOPT_WRITEFUNCTION, &take_body);
    set(CURLOPT_WRITEDATA, &incoming);
    const CURLcode code = curl().easy_perform(easy_);
    curl().slist_free_all(headers);
    long status = 0;
    curl().easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    incoming.result.status = static_cast<int>(status);
    if (code != CURLE_OK) incoming.result.error = curl().easy_strerror(code);
    return std::move(incoming.result);
  }

 private:
  template <class T>
  void set(CURLoption option, T value) {
    curl().easy_setopt(easy_, option, value);
  }

  CURL* easy_;
};

constexpr int kMaxRedirects = 10;
constexpr int64_t kMaxFileBytes = int64_t{1} << 44;

/// An append-only file locked against other processes.
class PartialFile {
 public:
  explicit PartialFile(const fs::path& path)
      : path_(path), fd_(open_fd(path.string(), O_RDWR | O_CREAT)) {
    if (!fd_) fail("cannot open");
    while (::flock(fd_.get(), LOCK_EX) != 0) {
      if (errno != EINTR) fail("cannot lock");
    }
  }
  int64_t size() const {
    struct stat status = {};
    if (::fstat(fd_.get(), &status) != 0) fail("cannot read");
    return status.st_size;
  }
  void cut(int64_t size) {
    if (::ftruncate(fd_.get(), size) != 0 || ::lseek(fd_.get(), size, SEEK_SET) < 0)
      fail("cannot write");
  }
  void append(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(fd_.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("cannot write");
      bytes.remove_prefix(static_cast<size_t>(count));
    }
  }
  std::string digest(Digest::Kind kind, bool git_blob) {
    Digest digest(kind);
    if (git_blob) digest.add("blob " + std::to_string(size()) + std::string(1, '\0'));
    if (::lseek(fd_.get(), 0, SEEK_SET) < 0) fail("cannot read");
    std::string buffer(1 << 20, '\0');
    for (;;) {
      const ssize_t count = ::read(fd_.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("cannot read");
      if (count == 0) return digest.finish();
      digest.add(std::string_view(buffer).substr(0, static_cast<size_t>(count)));
    }
  }
  void publish(const fs::path& target) { publish_file(path_.string(), target.string()); }
  /// Whether the path still names this file: another process may have published it.
  bool is_current() const {
    struct stat here = {}, there = {};
    return ::fstat(fd_.get(), &here) == 0 && ::stat(path_.c_str(), &there) == 0 &&
           here.st_ino == there.st_ino && here.st_dev == there.st_dev;
  }
  void remove() { ::unlink(path_.c_str()); }

 private:
  [[noreturn]] void fail(const char* message) const {
    throw IoError(text("{} '{}': {}", message, path_.string(), std::strerror(errno)));
  }

  fs::path path_;
  OwnedFd fd_;
};

std::optional<int64_t> count_in(std::string_view text) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() && parsed.ptr != text.data() && value >= 0 ? std::optional(value)
                                                                             : std::nullopt;
}

std::string header(const HttpResult& result, const char* name) {
  const auto found = result.headers.find(name);
  return found == result.headers.end() ? "" : found->second;
}

/// The target of a redirect, which may be relative.
std::string redirected(const std::string& from, const std::string& location) {
  if (location.find("://") != location.npos) return location;
  if (location.starts_with("//")) return from.substr(0, from.find(':') + 1) + location;
  if (location.starts_with('/')) return origin_of_url(from) + location;
  return from.substr(0, from.rfind('/') + 1) + location;
}

/// The 5 of "bytes 5-9/10".
std::optional<int64_t> range_start(const HttpResult& result) {
  const std::string range = header(result, "content-range");
  constexpr std::string_view kUnit = "bytes ";
  if (!range.starts_with(kUnit)) return std::nullopt;
  return count_in(std::string_view(range).substr(kUnit.size()));
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/// Whether a retry may succeed.
bool may_pass(const HttpResult& result) {
  return result.status == 0 || result.status == 408 || result.status == 429 ||
         result.status >= 500 || (result.status >= 200 && result.status < 300);
}

/// GET that follows redirects and sends the token only to its server.
HttpResult get_following(HttpClient& client, HttpQuery query, const Credential& credential,
                         const HttpClient::Sink& sink) {
  const std::vector<std::string> plain = query.headers;
  for (int i = 0; i <= kMaxRedirects; ++i) {
    query.headers = plain;
    if (!credential.token.empty() && origin_of_url(query.url) == credential.origin) {
      query.headers.push_back("Authorization: Bearer " + credential.token);
    }
    const HttpResult result =
        client.get(query, [&](const HttpResult& so_far, std::string_view bytes) {
          return is_redirect(so_far.status) || sink(so_far, bytes);
        });
    if (!is_redirect(result.status)) return result;
    const std::string next = redirected(query.url, header(result, "location"));
    if (query.url.starts_with("https://") && !next.starts_with("https://")) {
      throw IoError(text("'{}' redirects to '{}', which is not encrypted", origin_of_url(query.url),
                         printable(next)));
    }
    query.url = next;
  }
  throw IoError(text("too many redirects from '{}'", origin_of_url(query.url)));
}

[[noreturn]] void give_up(const std::string& name, const std::string& url,
                          const HttpResult& result) {
  const std::string why =
      result.error.empty() ? text("the server answered {}", result.status) : result.error;
  throw IoError(text("cannot download '{}' from '{}': {}", name, origin_of_url(url), why),
                "the partial download is kept: run the same command again");
}

/// The download of one file.
class Fetching {
 public:
  Fetching(HttpClient& client, const FetchRequest& request, const Credential& credential,
           const RetryPolicy& retry)
      : client_(client), request_(request), credential_(credential), patience_(retry) {}

  void into(PartialFile& file) {
    Activity shown("downloading " + printable(request_.name), "B");
    shown_ = &shown;
    int failures = 0;
    int64_t furthest = file.size();
    auto pause = patience_.pause;
    while (!whole_) {
      const int64_t before = prepare(file);
      if (request_.size && before == *request_.size) break;
      const HttpResult result = attempt(file, before);
      if (whole_) break;
      // Bytes received before are no progress: a server may always restart from the beginning.
      const bool further = file.size() > furthest;
      furthest = std::max(furthest, file.size());
      failures = further ? 1 : failures + 1;
      if (further) pause = patience_.pause;
      if (failures >= patience_.attempts) give_up(request_.name, request_.url, result);
      std::this_thread::sleep_for(pause);
      pause *= 2;
    }
    check(file);
  }

 private:
  /// Prepares the file for appending and returns the offset.
  int64_t prepare(PartialFile& file) {
    const int64_t have = file.size();
    const bool too_much = request_.size && have > *request_.size;
    file.cut(too_much ? 0 : have);
    return too_much ? 0 : have;
  }

  HttpResult attempt(PartialFile& file, int64_t from) {
    HttpQuery query{request_.url};
    if (from > 0) query.headers.push_back("Range: bytes=" + std::to_string(from) + "-");
    bool started = false, elsewhere = false;
    const auto sink = [&](const HttpResult& so_far, std::string_view bytes) {
      if (so_far.status != 200 && so_far.status != 206) return true;  // the body of an error
      if (!started && !begins_at(so_far, from)) {
        // The server does not support the range: start over.
        elsewhere = so_far.status == 206;
        if (elsewhere) return false;
        file.cut(0);
      }
      started = true;
      file.append(bytes);
      shown_->progress(file.size(), request_.size.value_or(0));
      return file.size() <= request_.size.value_or(kMaxFileBytes);
    };
    const HttpResult result = get_following(client_, query, credential_, sink);
    if (request_.size && file.size() > *request_.size) refuse_longer(file);
    if (result.status == 416 || elsewhere) file.cut(0);
    if (result.status != 416 && !may_pass(result)) throw FetchRefused(result);
    const bool answered = result.status == 200 || result.status == 206;
    whole_ = answered && result.error.empty() && file.size() == request_.size.value_or(file.size());
    return result;
  }

  static bool begins_at(const HttpResult& result, int64_t from) {
    if (result.status == 200) return from == 0;
    return range_start(result) == from;
  }

  [[noreturn]] void refuse_longer(PartialFile& file) {
    file.remove();
    throw DataError(text("'{}' from '{}' is longer than the {} bytes it should have", request_.name,
                         origin_of_url(request_.url), *request_.size),
                    "the download is deleted; the file may have changed, or a proxy altered it");
  }

  void check(PartialFile& file) {
    if (request_.digest_hex.empty()) return;
    const std::string found = file.digest(request_.digest, request_.git_blob);
    if (found == request_.digest_hex) return;
    file.remove();
    throw DataError(text("'{}' from '{}' has the checksum {}, not {}", request_.name,
                         origin_of_url(request_.url), found, request_.digest_hex),
                    "the download is deleted; the file may have changed, or a proxy altered it");
  }

  HttpClient& client_;
  const FetchRequest& request_;
  const Credential& credential_;
  const RetryPolicy& patience_;
  Activity* shown_ = nullptr;
  bool whole_ = false;
};

}  // namespace

std::unique_ptr<HttpClient> make_curl_client() {
  return std::make_unique<CurlClient>();
}

std::string origin_of_url(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == url.npos) return {};
  const size_t end = std::min(url.find_first_of("/?#", scheme + 3), url.size());
  const std::string host = url.substr(scheme + 3, end - scheme - 3);
  // Before an '@' are a user name and a password.
  return url.substr(0, scheme + 3) + host.substr(host.rfind('@') + 1);
}

void fetch_file(HttpClient& client, const FetchRequest& request, const Credential& credential,
                const RetryPolicy& retry) {
  std::error_code error;
  while (!fs::exists(request.target, error)) {
    fs::create_directories(request.target.parent_path());
    PartialFile file(request.target.string() + ".incomplete");
    if (!file.is_current()) continue;  // another process has just published it
    Fetching(client, request, credential, retry).into(file);
    file.publish(request.target);
  }
}

std::string fetch_text(HttpClient& client, const std::string& url, size_t cap,
                       const Credential& credential, const RetryPolicy& retry) {
  auto pause = retry.pause;
  for (int i = 1;; ++i) {
    std::string body;
    const HttpResult result =
        get_following(client, {url}, credential, [&](const HttpResult&, std::string_view bytes) {
          body.append(bytes);
          return body.size() <= cap;
        });
    if (body.size() > cap) {
      throw DataError(text("a response of '{}' has more than {} bytes", origin_of_url(url), cap));
    }
    if (result.status == 200 && result.error.empty()) return body;
    if (!may_pass(result)) throw FetchRefused(result);
    if (i >= retry.attempts) give_up(url.substr(url.rfind('/') + 1), url, result);
    std::this_thread::sleep_for(pause);
    pause *= 2;
  }
}

}  // namespace accel
