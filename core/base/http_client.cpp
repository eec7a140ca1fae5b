#include "core/base/http_client.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <exception>
#include <utility>

#include "core/base/curl_library.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/url.h"
#include "core/base/utf8.h"

namespace accel {
namespace {

constexpr size_t kMaxHeaders = 200;
constexpr int kMaxRedirects = 10;

/// A response during its transfer.
struct Incoming {
  const CurlLibrary& curl;
  CURL* easy;
  const HttpClient::Sink& sink;
  std::stop_token stop;
  HttpResult result = {};
  std::exception_ptr failure = {};  ///< of the sink: must not pass through libcurl
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
    incoming.curl.easy_getinfo(incoming.easy, CURLINFO_RESPONSE_CODE, &status);
    incoming.result.status = static_cast<int>(status);
  }
  try {
    return incoming.sink(incoming.result, {data, count}) ? count : 0;  // 0 ends the transfer
  } catch (...) {
    incoming.failure = std::current_exception();
    return 0;
  }
}

int check_stop(void* out, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Incoming*>(out)->stop.stop_requested() ? 1 : 0;
}

class CurlClient final : public HttpClient {
 public:
  explicit CurlClient(const CurlLibrary& curl) : curl_(curl), easy_(curl.easy_init()) {
    if (!easy_) throw IoError("libcurl is out of memory");
  }
  ~CurlClient() override { curl_.easy_cleanup(easy_); }

  HttpResult perform(const HttpQuery& query, const Sink& sink) override {
    if (!query.url.starts_with("http://") && !query.url.starts_with("https://")) {
      return {0, {}, text("'{}' is not an http or https URL", printable_url(query.url))};
    }
    Incoming incoming{curl_, easy_, sink, query.stop};
    curl_.easy_reset(easy_);  // the connection stays open
    curl_slist* headers = nullptr;
    for (const std::string& line : query.headers) {
      headers = curl_.slist_append(headers, line.c_str());
    }
    if (query.method != "GET") {
      headers = curl_.slist_append(headers, "Expect:");  // no wait for "100 Continue"
      set(CURLOPT_POSTFIELDS, reinterpret_cast<const char*>(query.body.data()));
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(query.body.size()));
      set(CURLOPT_CUSTOMREQUEST, query.method.c_str());
    }
    set(CURLOPT_URL, query.url.c_str());
    set(CURLOPT_HTTPHEADER, headers);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, query.connect_seconds);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, query.stall_seconds);
    set(CURLOPT_USERAGENT, "accel-run");
    if (query.netrc) set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
    set(CURLOPT_HEADERFUNCTION, &take_header);
    set(CURLOPT_HEADERDATA, &incoming);
    set(CURLOPT_WRITEFUNCTION, &take_body);
    set(CURLOPT_WRITEDATA, &incoming);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &check_stop);
    set(CURLOPT_XFERINFODATA, &incoming);
    const CURLcode code = curl_.easy_perform(easy_);
    curl_.slist_free_all(headers);
    if (incoming.failure) std::rethrow_exception(incoming.failure);
    long status = 0;
    curl_.easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    incoming.result.status = static_cast<int>(status);
    if (code != CURLE_OK) incoming.result.error = curl_.easy_strerror(code);
    return std::move(incoming.result);
  }

 private:
  template <class T>
  void set(CURLoption option, T value) {
    curl_.easy_setopt(easy_, option, value);
  }

  const CurlLibrary& curl_;
  CURL* easy_;
};

/// A non-negative number at the start of `text`.
std::optional<int64_t> count_in(std::string_view text) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() && parsed.ptr != text.data() && value >= 0 ? std::optional(value)
                                                                             : std::nullopt;
}

/// The target of a redirect, which may be relative.
std::string redirected(const std::string& from, const std::string& location) {
  if (location.find("://") != location.npos) return location;
  if (location.starts_with("//")) return from.substr(0, from.find(':') + 1) + location;
  if (location.starts_with('/')) return origin_of_url(from) + location;
  return from.substr(0, from.rfind('/') + 1) + location;
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

std::string HttpResult::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::unique_ptr<HttpClient> make_curl_client(const char* user, const char* alternative) {
  return std::make_unique<CurlClient>(curl_library(user, alternative));
}

HttpResult perform_following(HttpClient& client, HttpQuery query, const Credential& credential,
                             const HttpClient::Sink& sink) {
  const std::vector<std::string> plain = query.headers;
  for (int i = 0; i <= kMaxRedirects; ++i) {
    query.headers = plain;
    if (!credential.token.empty() && origin_of_url(query.url) == credential.origin) {
      query.headers.push_back("Authorization: Bearer " + credential.token);
    }
    const HttpResult result =
        client.perform(query, [&](const HttpResult& so_far, std::string_view bytes) {
          return is_redirect(so_far.status) || sink(so_far, bytes);
        });
    const std::string location = result.header("location");
    if (!is_redirect(result.status) || location.empty()) return result;
    const std::string next = redirected(query.url, location);
    if (query.url.starts_with("https://") && !next.starts_with("https://")) {
      throw IoError(text("'{}' redirects to '{}', which is not encrypted", origin_of_url(query.url),
                         printable(next)));
    }
    query.url = next;
  }
  throw IoError(text("too many redirects from '{}'", origin_of_url(query.url)));
}

bool is_transient(const HttpResult& result) {
  return result.status == 0 || result.status == 408 || result.status == 429 ||
         result.status >= 500 || (result.status >= 200 && result.status < 300);
}

std::optional<ContentRange> content_range(const HttpResult& result) {
  const std::string range = result.header("content-range");
  constexpr std::string_view kUnit = "bytes ";
  if (!range.starts_with(kUnit)) return std::nullopt;
  const auto first = count_in(std::string_view(range).substr(kUnit.size()));
  if (!first) return std::nullopt;
  const size_t slash = range.find('/');
  const auto size =
      slash == range.npos ? std::nullopt : count_in(std::string_view(range).substr(slash + 1));
  return ContentRange{*first, size.value_or(-1)};
}

}  // namespace accel
