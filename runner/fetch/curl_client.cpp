// HTTP by libcurl, which is loaded for downloads only: it brings thirty libraries along.
#include <dlfcn.h>

#include <algorithm>
#include <cctype>

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "core/error.h"
#include "runner/fetch/http_client.h"

namespace accel {
namespace {

constexpr long kConnectSeconds = 20;
constexpr long kStalledSeconds = 60;  ///< without a byte
constexpr size_t kMaxHeaders = 200;

template <class Function>
void find_function(void* library, const char* name, Function*& out) {
  out = reinterpret_cast<Function*>(::dlsym(library, name));
  if (!out) throw IoError(std::string("libcurl.so.4 has no '") + name + "'");
}

struct CurlFunctions {
  decltype(curl_global_init)* global_init;
  decltype(curl_easy_init)* easy_init;
  decltype(curl_easy_setopt)* easy_setopt;
  decltype(curl_easy_getinfo)* easy_getinfo;
  decltype(curl_easy_perform)* easy_perform;
  decltype(curl_easy_strerror)* easy_strerror;
  decltype(curl_easy_reset)* easy_reset;
  decltype(curl_easy_cleanup)* easy_cleanup;
  decltype(curl_slist_append)* slist_append;
  decltype(curl_slist_free_all)* slist_free_all;

  CurlFunctions() {
    void* library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);  // never closed
    if (!library) {
      throw IoError("a download needs libcurl.so.4, which this machine has not",
                    "install libcurl (Debian, Ubuntu: libcurl4), or bring the files yourself");
    }
    find_function(library, "curl_global_init", global_init);
    find_function(library, "curl_easy_init", easy_init);
    find_function(library, "curl_easy_setopt", easy_setopt);
    find_function(library, "curl_easy_getinfo", easy_getinfo);
    find_function(library, "curl_easy_perform", easy_perform);
    find_function(library, "curl_easy_strerror", easy_strerror);
    find_function(library, "curl_easy_reset", easy_reset);
    find_function(library, "curl_easy_cleanup", easy_cleanup);
    find_function(library, "curl_slist_append", slist_append);
    find_function(library, "curl_slist_free_all", slist_free_all);
    if (global_init(CURL_GLOBAL_ALL) != CURLE_OK) throw IoError("libcurl.so.4 cannot be started");
  }
};

const CurlFunctions& curl_functions() {
  static const CurlFunctions loaded;
  return loaded;
}

/// One answer while it comes.
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
    curl_functions().easy_getinfo(incoming.easy, CURLINFO_RESPONSE_CODE, &status);
    incoming.result.status = static_cast<int>(status);
  }
  return incoming.sink(incoming.result, {data, count}) ? count : 0;  // 0 ends the transfer
}

class CurlClient final : public HttpClient {
 public:
  CurlClient() : easy_(curl_functions().easy_init()) {
    if (!easy_) throw IoError("libcurl.so.4 has no memory");
  }
  ~CurlClient() override { curl_functions().easy_cleanup(easy_); }

  HttpResult get(const HttpQuery& query, const Sink& sink) override {
    if (!query.url.starts_with("http://") && !query.url.starts_with("https://")) {
      return {0, {}, "'" + query.url + "' is no address of the web"};
    }
    Incoming incoming{sink, easy_};
    curl_functions().easy_reset(easy_);  // the connection stays open
    curl_slist* headers = nullptr;
    for (const std::string& line : query.headers) {
      headers = curl_functions().slist_append(headers, line.c_str());
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
    const CURLcode code = curl_functions().easy_perform(easy_);
    curl_functions().slist_free_all(headers);
    long status = 0;
    curl_functions().easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    incoming.result.status = static_cast<int>(status);
    if (code != CURLE_OK) incoming.result.error = curl_functions().easy_strerror(code);
    return std::move(incoming.result);
  }

 private:
  template <class T>
  void set(CURLoption option, T value) {
    curl_functions().easy_setopt(easy_, option, value);
  }

  CURL* easy_;
};

}  // namespace

std::unique_ptr<HttpClient> make_curl_client() {
  return std::make_unique<CurlClient>();
}

}  // namespace accel
