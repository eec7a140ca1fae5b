#include "runner/fetch/fetch_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <thread>

#include "core/error.h"
#include "core/utf8.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxRedirects = 10;
constexpr int64_t kMaxFileBytes = int64_t{1} << 44;

/// A file that is written at its end, and locked against other processes.
class PartialFile {
 public:
  explicit PartialFile(const fs::path& path)
      : path_(path), fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail("cannot open");
    while (::flock(fd_, LOCK_EX) != 0) {
      if (errno != EINTR) fail("cannot lock");
    }
  }
  ~PartialFile() { ::close(fd_); }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  int64_t size() const {
    struct stat facts = {};
    if (::fstat(fd_, &facts) != 0) fail("cannot read");
    return facts.st_size;
  }
  void cut(int64_t size) {
    if (::ftruncate(fd_, size) != 0 || ::lseek(fd_, size, SEEK_SET) < 0) fail("cannot write");
  }
  void append(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("cannot write");
      bytes.remove_prefix(static_cast<size_t>(count));
    }
  }
  std::string digest(Digest::Kind kind, bool git_blob) {
    Digest digest(kind);
    if (git_blob) digest.add("blob " + std::to_string(size()) + std::string(1, '\0'));
    if (::lseek(fd_, 0, SEEK_SET) < 0) fail("cannot read");
    std::string buffer(1 << 20, '\0');
    for (;;) {
      const ssize_t count = ::read(fd_, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("cannot read");
      if (count == 0) return digest.finish();
      digest.add(std::string_view(buffer).substr(0, static_cast<size_t>(count)));
    }
  }
  void publish(const fs::path& target) {
    if (::fsync(fd_) != 0 || ::rename(path_.c_str(), target.c_str()) != 0) fail("cannot write");
  }
  /// Whether the name still stands for this file: another process may have published it.
  bool is_current() const {
    struct stat here = {}, there = {};
    return ::fstat(fd_, &here) == 0 && ::stat(path_.c_str(), &there) == 0 &&
           here.st_ino == there.st_ino && here.st_dev == there.st_dev;
  }
  void remove() { ::unlink(path_.c_str()); }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw IoError(std::string(what) + " '" + path_.string() + "': " + std::strerror(errno));
  }

  fs::path path_;
  int fd_;
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

/// Where a redirect leads, which may be told relative to where it came from.
std::string redirected(const std::string& from, const std::string& location) {
  if (location.find("://") != location.npos) return location;
  if (location.starts_with("//")) return from.substr(0, from.find(':') + 1) + location;
  if (location.starts_with('/')) return origin_of_url(from) + location;
  return from.substr(0, from.rfind('/') + 1) + location;
}

/// Where "bytes 5-9/10" starts.
std::optional<int64_t> range_start(const HttpResult& result) {
  const std::string range = header(result, "content-range");
  constexpr std::string_view kUnit = "bytes ";
  if (!range.starts_with(kUnit)) return std::nullopt;
  return count_in(std::string_view(range).substr(kUnit.size()));
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/// Whether asking again may help.
bool may_pass(const HttpResult& result) {
  return result.status == 0 || result.status == 408 || result.status == 429 ||
         result.status >= 500 || (result.status >= 200 && result.status < 300);
}

/// GET with redirects followed; the token goes to no other server than its own.
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
      throw IoError("'" + origin_of_url(query.url) + "' leads to '" + printable(next) +
                    "', which is not encrypted");
    }
    query.url = next;
  }
  throw IoError("'" + origin_of_url(query.url) + "' redirects without end");
}

[[noreturn]] void give_up(const std::string& name, const std::string& url,
                          const HttpResult& result) {
  const std::string why =
      result.error.empty() ? "it answered " + std::to_string(result.status) : result.error;
  throw IoError("cannot download '" + name + "' from '" + origin_of_url(url) + "': " + why,
                "what has come is kept: give the same command again");
}

/// One file on its way.
class Fetching {
 public:
  Fetching(HttpClient& client, const FetchOrder& order, const Credential& credential,
           const FetchPatience& patience)
      : client_(client), order_(order), credential_(credential), patience_(patience) {}

  void into(PartialFile& file) {
    int failures = 0;
    int64_t furthest = file.size();
    auto pause = patience_.pause;
    while (!whole_) {
      const int64_t before = prepare(file);
      if (order_.size && before == *order_.size) break;
      const HttpResult result = attempt(file, before);
      if (whole_) break;
      // Bytes that had come before are no progress: a server may start again for ever.
      const bool further = file.size() > furthest;
      furthest = std::max(furthest, file.size());
      failures = further ? 1 : failures + 1;
      if (further) pause = patience_.pause;
      if (failures >= patience_.attempts) give_up(order_.name, order_.url, result);
      std::this_thread::sleep_for(pause);
      pause *= 2;
    }
    check(file);
  }

 private:
  /// Makes ready to append, and says at which byte.
  int64_t prepare(PartialFile& file) {
    const int64_t have = file.size();
    const bool too_much = order_.size && have > *order_.size;
    file.cut(too_much ? 0 : have);
    return too_much ? 0 : have;
  }

  HttpResult attempt(PartialFile& file, int64_t from) {
    HttpQuery query{order_.url};
    if (from > 0) query.headers.push_back("Range: bytes=" + std::to_string(from) + "-");
    bool started = false, elsewhere = false;
    const auto sink = [&](const HttpResult& so_far, std::string_view bytes) {
      if (so_far.status != 200 && so_far.status != 206) return true;  // words of a refusal
      if (!started && !begins_at(so_far, from)) {
        // The server knows no ranges, or another one: from the start.
        elsewhere = so_far.status == 206;
        if (elsewhere) return false;
        file.cut(0);
      }
      started = true;
      file.append(bytes);
      return file.size() <= order_.size.value_or(kMaxFileBytes);
    };
    const HttpResult result = get_following(client_, query, credential_, sink);
    if (order_.size && file.size() > *order_.size) refuse(file, "is longer than the");
    if (result.status == 416 || elsewhere) file.cut(0);
    if (result.status != 416 && !may_pass(result)) throw FetchRefused(result);
    const bool answered = result.status == 200 || result.status == 206;
    whole_ = answered && result.error.empty() && file.size() == order_.size.value_or(file.size());
    return result;
  }

  static bool begins_at(const HttpResult& result, int64_t from) {
    if (result.status == 200) return from == 0;
    return range_start(result) == from;
  }

  [[noreturn]] void refuse(PartialFile& file, const std::string& how) {
    file.remove();
    throw DataError("'" + order_.name + "' from '" + origin_of_url(order_.url) + "' " + how + " " +
                        std::to_string(*order_.size) + " bytes it should have",
                    "nothing of it is kept; the file may have changed, or something is in between");
  }

  void check(PartialFile& file) {
    if (order_.digest_hex.empty()) return;
    const std::string found = file.digest(order_.digest, order_.git_blob);
    if (found == order_.digest_hex) return;
    file.remove();
    throw DataError("'" + order_.name + "' from '" + origin_of_url(order_.url) +
                        "' has the checksum " + found + ", not " + order_.digest_hex,
                    "nothing of it is kept; the file may have changed, or something is in between");
  }

  HttpClient& client_;
  const FetchOrder& order_;
  const Credential& credential_;
  const FetchPatience& patience_;
  bool whole_ = false;
};

}  // namespace

std::string origin_of_url(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == url.npos) return {};
  const size_t end = std::min(url.find_first_of("/?#", scheme + 3), url.size());
  const std::string host = url.substr(scheme + 3, end - scheme - 3);
  // What stands before an '@' is a name and a password, not the server.
  return url.substr(0, scheme + 3) + host.substr(host.rfind('@') + 1);
}

void fetch_file(HttpClient& client, const FetchOrder& order, const Credential& credential,
                const FetchPatience& patience) {
  std::error_code error;
  while (!fs::exists(order.target, error)) {
    fs::create_directories(order.target.parent_path());
    PartialFile file(order.target.string() + ".incomplete");
    if (!file.is_current()) continue;  // another process has just published it
    Fetching(client, order, credential, patience).into(file);
    file.publish(order.target);
  }
}

std::string fetch_text(HttpClient& client, const std::string& url, size_t cap,
                       const Credential& credential, const FetchPatience& patience) {
  auto pause = patience.pause;
  for (int i = 1;; ++i) {
    std::string body;
    const HttpResult result =
        get_following(client, {url}, credential, [&](const HttpResult&, std::string_view bytes) {
          body.append(bytes);
          return body.size() <= cap;
        });
    if (body.size() > cap) {
      throw DataError("an answer of '" + origin_of_url(url) + "' is larger than any should be");
    }
    if (result.status == 200 && result.error.empty()) return body;
    if (!may_pass(result)) throw FetchRefused(result);
    if (i >= patience.attempts) give_up(url.substr(url.rfind('/') + 1), url, result);
    std::this_thread::sleep_for(pause);
    pause *= 2;
  }
}

}  // namespace accel
