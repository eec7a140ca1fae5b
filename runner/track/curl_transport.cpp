// HTTP by libcurl. It is loaded when a recipe first names a server: it brings thirty libraries
// along, which other runs neither need nor wait for.
#include <dlfcn.h>

#include <map>

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "core/error.h"
#include "runner/track/transport.h"

namespace accel {
namespace {

constexpr long kConnectMs = 5000;
constexpr long kRequestMs = 30000;
constexpr size_t kMaxReplyBytes = 1 << 20;

template <class Function>
void find(void* library, const char* name, Function*& out) {
  out = reinterpret_cast<Function*>(::dlsym(library, name));
  if (!out) throw IoError(std::string("libcurl.so.4 has no '") + name + "'");
}

/// The functions used, found by name.
struct Curl {
  decltype(curl_global_init)* global_init;
  decltype(curl_easy_init)* easy_init;
  decltype(curl_easy_setopt)* easy_setopt;
  decltype(curl_easy_getinfo)* easy_getinfo;
  decltype(curl_easy_strerror)* easy_strerror;
  decltype(curl_easy_reset)* easy_reset;
  decltype(curl_easy_cleanup)* easy_cleanup;
  decltype(curl_slist_append)* slist_append;
  decltype(curl_slist_free_all)* slist_free_all;
  decltype(curl_multi_init)* multi_init;
  decltype(curl_multi_cleanup)* multi_cleanup;
  decltype(curl_multi_add_handle)* multi_add_handle;
  decltype(curl_multi_remove_handle)* multi_remove_handle;
  decltype(curl_multi_perform)* multi_perform;
  decltype(curl_multi_poll)* multi_poll;
  decltype(curl_multi_wakeup)* multi_wakeup;
  decltype(curl_multi_info_read)* multi_info_read;

  Curl();
};

Curl::Curl() {
  void* library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);  // never closed
  if (!library) {
    throw IoError("a tracker talks to a server, but this machine has no libcurl.so.4",
                  "install libcurl (Debian, Ubuntu: libcurl4), or let the tracker write files");
  }
  find(library, "curl_global_init", global_init);
  find(library, "curl_easy_init", easy_init);
  find(library, "curl_easy_setopt", easy_setopt);
  find(library, "curl_easy_getinfo", easy_getinfo);
  find(library, "curl_easy_strerror", easy_strerror);
  find(library, "curl_easy_reset", easy_reset);
  find(library, "curl_easy_cleanup", easy_cleanup);
  find(library, "curl_slist_append", slist_append);
  find(library, "curl_slist_free_all", slist_free_all);
  find(library, "curl_multi_init", multi_init);
  find(library, "curl_multi_cleanup", multi_cleanup);
  find(library, "curl_multi_add_handle", multi_add_handle);
  find(library, "curl_multi_remove_handle", multi_remove_handle);
  find(library, "curl_multi_perform", multi_perform);
  find(library, "curl_multi_poll", multi_poll);
  find(library, "curl_multi_wakeup", multi_wakeup);
  find(library, "curl_multi_info_read", multi_info_read);
  if (global_init(CURL_GLOBAL_ALL) != CURLE_OK) throw IoError("libcurl.so.4 cannot be started");
}

const Curl& curl() {
  static const Curl loaded;
  return loaded;
}

size_t take_bytes(char* data, size_t, size_t count, void* out) {
  auto* reply = static_cast<HttpReply*>(out);
  if (reply->body.size() + count > kMaxReplyBytes) return 0;  // ends the transfer
  reply->body.append(data, count);
  return count;
}

class CurlTransport final : public Transport {
 public:
  CurlTransport() : easy_(curl().easy_init()), multi_(curl().multi_init()) {
    if (!easy_ || !multi_) throw IoError("libcurl.so.4 has no memory");
  }

  ~CurlTransport() override {
    cancel();
    curl().easy_cleanup(easy_);
    curl().multi_cleanup(multi_);
  }

  void start(const HttpRequest& request) override {
    cancel();
    body_ = request.body;
    reply_ = {};
    curl().easy_reset(easy_);  // the connection stays open
    for (const std::string& line : request.headers) {
      headers_ = curl().slist_append(headers_, line.c_str());
    }
    headers_ = curl().slist_append(headers_, "Expect:");  // no pause before a large body
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_HTTPHEADER, headers_);
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    if (request.method != "GET") {
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body_.size()));
      set(CURLOPT_POSTFIELDS, body_.c_str());
    }
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
    set(CURLOPT_TIMEOUT_MS, kRequestMs);
    set(CURLOPT_USERAGENT, "accel-run");
    set(CURLOPT_WRITEFUNCTION, &take_bytes);
    set(CURLOPT_WRITEDATA, &reply_);
    curl().multi_add_handle(multi_, easy_);
    running_ = true;
  }

  std::optional<HttpReply> wait(std::chrono::milliseconds most) override {
    if (auto reply = perform()) return reply;
    curl().multi_poll(multi_, nullptr, 0, static_cast<int>(most.count()), nullptr);
    return perform();
  }

  void wake() override { curl().multi_wakeup(multi_); }

  void cancel() override {
    if (running_) curl().multi_remove_handle(multi_, easy_);
    running_ = false;
    curl().slist_free_all(headers_);
    headers_ = nullptr;
  }

 private:
  template <class T>
  void set(CURLoption option, T value) {
    curl().easy_setopt(easy_, option, value);
  }

  std::optional<HttpReply> perform() {
    if (!running_) return std::nullopt;
    int active = 0, left = 0;
    curl().multi_perform(multi_, &active);
    const CURLMsg* message = curl().multi_info_read(multi_, &left);
    if (!message || message->msg != CURLMSG_DONE) return std::nullopt;
    if (message->data.result == CURLE_OK) {
      long status = 0;
      curl().easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
      reply_.status = static_cast<int>(status);
    } else {
      reply_.error = curl().easy_strerror(message->data.result);
    }
    cancel();
    return std::move(reply_);
  }

  CURL* easy_;
  CURLM* multi_;
  curl_slist* headers_ = nullptr;
  std::string body_;
  HttpReply reply_;
  bool running_ = false;
};

}  // namespace

std::unique_ptr<Transport> make_curl_transport() {
  return std::make_unique<CurlTransport>();
}

}  // namespace accel
