#include "runner/fetch/fetch_file.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "core/base/activity.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/owned_fd.h"
#include "core/base/text.h"
#include "core/base/url.h"
#include "core/base/utf8.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

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
    const HttpResult result = perform_following(client_, query, credential_, sink);
    if (request_.size && file.size() > *request_.size) refuse_longer(file);
    if (result.status == 416 || elsewhere) file.cut(0);
    if (result.status != 416 && !is_transient(result)) throw FetchRefused(result);
    const bool answered = result.status == 200 || result.status == 206;
    whole_ = answered && result.error.empty() && file.size() == request_.size.value_or(file.size());
    return result;
  }

  static bool begins_at(const HttpResult& result, int64_t from) {
    if (result.status == 200) return from == 0;
    const auto range = content_range(result);
    return range && range->first == from;
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

std::unique_ptr<HttpClient> make_download_client() {
  return make_curl_client("a download", "copy the files by other means");
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
    const HttpResult result = perform_following(client, {url}, credential,
                                                [&](const HttpResult&, std::string_view bytes) {
                                                  body.append(bytes);
                                                  return body.size() <= cap;
                                                });
    if (body.size() > cap) {
      throw DataError(text("a response of '{}' has more than {} bytes", origin_of_url(url), cap));
    }
    if (result.status == 200 && result.error.empty()) return body;
    if (!is_transient(result)) throw FetchRefused(result);
    if (i >= retry.attempts) give_up(url.substr(url.rfind('/') + 1), url, result);
    std::this_thread::sleep_for(pause);
    pause *= 2;
  }
}

}  // namespace accel
