#include "data/store/object_store.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "data/store/store_protocol.h"
#include "data/store/xml.h"

namespace accel {
namespace {

constexpr size_t kMostOfAnError = 4096;
constexpr size_t kMostOfAListing = size_t{64} << 20;
constexpr auto kServerHint = "check the server and the network, then resume the run";

/// One request and what came of it.
struct Attempt {
  HttpResult result;
  std::string refusal = {};  ///< start of the body of an error
  std::string problem = {};  ///< of an answer that is not the one wanted
  bool changed = false;      ///< the object is another one
  bool is_final = false;     ///< the problem is not one that a retry mends
  bool done = false;
  bool progress = false;
};

/// Clients for the threads that need one now.
class ClientPool {
 public:
  explicit ClientPool(ClientFactory make) : make_(std::move(make)) {}

  HttpResult get(const HttpQuery& query, const Credential& credential,
                 const HttpClient::Sink& sink) {
    std::unique_ptr<HttpClient> client = take();
    HttpResult result = perform_following(*client, query, credential, sink);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(client));
    return result;
  }

 private:
  std::unique_ptr<HttpClient> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<HttpClient> client = std::move(idle_.back());
        idle_.pop_back();
        return client;
      }
    }
    return make_();
  }

  const ClientFactory make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<HttpClient>> idle_;
};

/// A validator that If-Match compares: no weak ETag and no time.
bool is_strong(const std::string& version) {
  return version.starts_with('"');
}

std::string version_in(const HttpResult& result) {
  const std::string etag = result.header("etag");
  return etag.empty() ? result.header("last-modified") : etag;
}

/// Waits between a half and the whole of `most`, so that ranks do not retry at once.
void wait_before_retry(std::chrono::milliseconds most, const std::stop_token& stop) {
  thread_local std::minstd_rand draw{std::random_device{}()};  // no draw of the run
  const auto share = std::uniform_real_distribution<double>(0.5, 1.0)(draw);
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, most * share, [] { return false; });
}

class RemoteStore final : public ObjectStore {
 public:
  RemoteStore(std::unique_ptr<StoreProtocol> protocol, const StoreContext& context)
      : protocol_(std::move(protocol)), policy_(context.policy), clients_(context.make_client) {}

  std::string url_of(const std::string& name) const override { return protocol_->url_of(name); }
  std::optional<std::vector<ObjectInfo>> list(ListingDepth depth) override;
  std::optional<ObjectInfo> find(const std::string& name) override;
  void read(const ObjectInfo& object, ByteRange range, const ByteSink& sink,
            const std::stop_token& stop) override;

 private:
  Attempt request(const HttpQuery& query, const HttpClient::Sink& sink,
                  const std::stop_token& stop);
  Attempt read_once(const ObjectInfo& object, ByteRange range, const ByteSink& sink,
                    const std::stop_token& stop);
  Attempt list_once(const HttpQuery& query, std::string& page);
  Attempt until_done(const std::string& url, const std::stop_token& stop,
                     const std::function<Attempt()>& attempt) const;
  [[noreturn]] void fail(const std::string& url, const Attempt& attempt) const;

  const std::unique_ptr<StoreProtocol> protocol_;
  const TransferPolicy policy_;
  ClientPool clients_;
};

Attempt RemoteStore::request(const HttpQuery& query, const HttpClient::Sink& sink,
                             const std::stop_token& stop) {
  Attempt out;
  HttpQuery patient = query;
  patient.stall_seconds = static_cast<long>(policy_.stall_seconds);
  patient.stop = stop;
  out.result = clients_.get(
      patient, protocol_->credential(), [&](const HttpResult& so_far, std::string_view bytes) {
        if (so_far.status < 300) return sink(so_far, bytes);
        out.refusal.append(
            bytes.substr(0, kMostOfAnError - std::min(out.refusal.size(), kMostOfAnError)));
        return true;
      });
  return out;
}

/// Repeats it while it may succeed.
Attempt RemoteStore::until_done(const std::string& url, const std::stop_token& stop,
                                const std::function<Attempt()>& attempt) const {
  int64_t failures = 0;
  auto pause = policy_.pause;
  for (;;) {
    Attempt last = attempt();
    if (last.done) return last;
    if (stop.stop_requested()) throw IoError(text("reading '{}' was stopped", url));
    if (last.changed || last.is_final || (last.problem.empty() && !is_transient(last.result)))
      return last;
    if (last.progress) {
      failures = 0;
      pause = policy_.pause;
    }
    if (++failures > policy_.retries) fail(url, last);
    wait_before_retry(pause, stop);
    pause = std::min(pause * 2, policy_.longest_pause);
  }
}

/// Throws the error of a last attempt.
void RemoteStore::fail(const std::string& url, const Attempt& attempt) const {
  const int status = attempt.result.status;
  if (attempt.changed) {
    throw DataError(text("'{}' changed while it was read: {}", url, attempt.problem),
                    "a run needs the data that it started with: restore the object, or start "
                    "another run");
  }
  if (!attempt.problem.empty()) {
    throw IoError(text("cannot read '{}': {}", url, attempt.problem), kServerHint);
  }
  const std::string code = xml_element(attempt.refusal, "Code").value_or("");
  const std::string answer = code.empty()
                                 ? text("the server answered {}", status)
                                 : text("the server answered {} ({})", status, printable(code));
  if (status == 404) {
    throw DataError(text("'{}' does not exist: {}", url, answer), "check 'path'");
  }
  if (status == 401 || status == 403) {
    throw DataError(text("'{}' is refused: {}", url, answer), protocol_->refusal_hint());
  }
  const std::string region = attempt.result.header("x-amz-bucket-region");
  if (status >= 300 && status < 500 && !region.empty()) {
    throw DataError(text("'{}' is refused: its bucket is in region '{}'", url, printable(region)),
                    text("set AWS_REGION={}", printable(region)));
  }
  const std::string& error = attempt.result.error;
  throw IoError(text("cannot read '{}': {}", url, error.empty() ? answer : error), kServerHint);
}

std::optional<ObjectInfo> RemoteStore::find(const std::string& name) {
  const std::string url = url_of(name);
  const Attempt last = until_done(url, {}, [&] {
    bool whole = false;
    Attempt out = request(protocol_->query(name, {{"range", "bytes=0-0"}}),
                          [&](const HttpResult& so_far, std::string_view) {
                            whole = so_far.status == 200;
                            return !whole;  // not the whole object
                          },
                          {});
    out.done = whole || (out.result.status == 206 && out.result.error.empty());
    return out;
  });
  const HttpResult& result = last.result;
  if (result.status == 404) return std::nullopt;
  const auto range = content_range(result);
  ObjectInfo out{name, range ? range->size : 0, version_in(result)};
  const bool is_empty = result.status == 416 || (result.status == 200 && out.size == 0 &&
                                                 result.header("content-length") == "0");
  if (is_empty) return ObjectInfo{name, 0, out.version};
  if (!last.done) fail(url, last);
  if (result.status != 206 || !range || range->first != 0 || range->size < 0) {
    throw DataError(text("the server of '{}' does not support range requests", url),
                    "use a server with range requests, such as nginx, or copy the data to the "
                    "disk");
  }
  if (out.version.empty()) {
    throw DataError(text("the server of '{}' sends neither ETag nor Last-Modified", url),
                    "a change of the object would not be noticed: use another server");
  }
  return out;
}

Attempt RemoteStore::read_once(const ObjectInfo& object, ByteRange range, const ByteSink& sink,
                               const std::stop_token& stop) {
  std::map<std::string, std::string> headers = {
      {"range", text("bytes={}-{}", range.first, range.first + range.bytes - 1)}};
  if (is_strong(object.version)) headers["if-match"] = object.version;
  int64_t received = 0;
  bool checked = false;
  std::string problem;
  bool changed = false, is_final = false;
  const auto check = [&](const HttpResult& result) {
    const auto got = content_range(result);
    const std::string version = version_in(result);
    if (version != object.version) {
      changed = true;
      problem = text("its version was {} and is {}", object.version, printable(version));
    } else if (result.status != 206 || !got) {
      problem = text("the server answered {} to a range request", result.status);
    } else if (got->size >= 0 && got->size != object.size) {
      changed = true;
      problem = text("it had {} bytes and has {}", object.size, got->size);
    } else if (got->first != range.first) {
      problem = text("the server sent bytes from {} instead of {}", got->first, range.first);
    }
    return problem.empty();
  };
  Attempt out = request(
      protocol_->query(object.name, headers),
      [&](const HttpResult& so_far, std::string_view bytes) {
        if (!checked && !check(so_far)) return false;
        checked = true;
        if (received + static_cast<int64_t>(bytes.size()) > range.bytes) {
          problem = text("the server sent more than the {} bytes of the range", range.bytes);
          is_final = true;
          return false;
        }
        sink(as_bytes(bytes));
        received += static_cast<int64_t>(bytes.size());
        return true;
      },
      stop);
  const int status = out.result.status;
  if (status == 412 || status == 416) {
    changed = true;
    problem = text("the server answered {}", status);
  } else if (problem.empty() && status == 206 && out.result.error.empty() &&
             received < range.bytes) {
    problem = text("the server sent {} of {} bytes", received, range.bytes);
  }
  out.problem = problem;
  out.changed = changed;
  out.is_final = is_final;
  out.progress = received > 0;
  out.done = received == range.bytes && problem.empty();
  return out;
}

void RemoteStore::read(const ObjectInfo& object, ByteRange range, const ByteSink& sink,
                       const std::stop_token& stop) {
  const std::string url = url_of(object.name);
  const ByteSink counted = [&](ByteSpan bytes) {
    sink(bytes);
    range.first += static_cast<int64_t>(bytes.size());
    range.bytes -= static_cast<int64_t>(bytes.size());
  };
  const Attempt last =
      until_done(url, stop, [&] { return read_once(object, range, counted, stop); });
  if (!last.done) fail(url, last);
}

Attempt RemoteStore::list_once(const HttpQuery& query, std::string& page) {
  page.clear();
  Attempt out = request(query,
                        [&](const HttpResult&, std::string_view bytes) {
                          page.append(bytes);
                          return page.size() <= kMostOfAListing;
                        },
                        {});
  out.done = out.result.status == 200 && out.result.error.empty();
  return out;
}

std::optional<std::vector<ObjectInfo>> RemoteStore::list(ListingDepth depth) {
  if (!protocol_->list_query("", depth)) return std::nullopt;
  const std::string url = url_of("");
  std::vector<ObjectInfo> all;
  std::string token, body;
  do {
    const Attempt last =
        until_done(url, {}, [&] { return list_once(*protocol_->list_query(token, depth), body); });
    if (!last.done) fail(url, last);
    const auto page = protocol_->page_in(body);
    if (!page) throw DataError(text("the listing of '{}' cannot be read", url), kServerHint);
    for (const ObjectInfo& object : page->objects) {
      const bool is_deeper = object.name.find('/') != object.name.npos;
      if (object.name.empty() || (depth == ListingDepth::kFolder && is_deeper)) continue;
      all.push_back(object);
    }
    token = page->next;
  } while (!token.empty());
  std::sort(all.begin(), all.end(),
            [](const ObjectInfo& a, const ObjectInfo& b) { return a.name < b.name; });
  return all;
}

}  // namespace

StoreContext store_context(const TransferPolicy& policy) {
  return {policy, [] { return make_curl_client("data of a URL", "copy the data to the disk"); },
          &environment_variable};
}

std::unique_ptr<ObjectStore> open_store(const std::string& url, const StoreContext& context) {
  return std::make_unique<RemoteStore>(make_protocol(url, context.environment, context.make_client),
                                       context);
}

}  // namespace accel
