#include "runner/launch/rank_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/log.h"

namespace accel {
namespace {

constexpr size_t kPending = 256 << 10;
constexpr size_t kRelayed = 1 << 20;
constexpr size_t kAtomicWrite = 4096;  // PIPE_BUF: what a pipe that is ready takes without waiting

bool writable(int fd, int milliseconds) {
  pollfd ready = {fd, POLLOUT, 0};
  return ::poll(&ready, 1, milliseconds) > 0;
}

}  // namespace

void LastLines::add(std::string_view text) {
  size_t start = text.size();
  for (size_t lines = 0; start > 0 && lines <= kLines; --start) lines += text[start - 1] == '\n';
  if (start > 0) {  // most of a flood needs no more than this
    text.remove_prefix(start + 1);
    unfinished_.clear();
  }
  while (!text.empty()) {
    const size_t end = text.find_first_of("\n\r");
    const std::string_view piece = text.substr(0, end);
    unfinished_.append(piece.substr(0, kLongestLine - std::min(kLongestLine, unfinished_.size())));
    if (end == std::string_view::npos) return;
    if (text[end] == '\n') done_.push_back(std::move(unfinished_));
    unfinished_.clear();  // what stood before a carriage return is written over
    if (done_.size() > kLines) done_.pop_front();
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> LastLines::lines() const {
  std::vector<std::string> lines(done_.begin(), done_.end());
  if (!unfinished_.empty()) lines.push_back(unfinished_);
  if (lines.size() > kLines) lines.erase(lines.begin());
  return lines;
}

void LazyLog::open() {
  std::error_code ignored;
  if (!std::filesystem::is_directory(std::filesystem::path(path_).parent_path(), ignored)) return;
  file_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666));
  struct stat facts = {};
  if (!file_ || ::fstat(file_.get(), &facts) != 0) {
    closed_ = true;
    warn("what a rank prints is lost: cannot open '" + path_ + "': " + std::strerror(errno));
    return;
  }
  bytes_ = facts.st_size;
  write(std::exchange(pending_, {}));
}

void LazyLog::write(std::string_view text) {
  const bool full = bytes_ + static_cast<int64_t>(text.size()) > kCap;
  const auto room = static_cast<size_t>(std::max<int64_t>(0, kCap - bytes_));
  std::string with_end;
  if (full) {
    with_end = text.substr(0, room);
    with_end += "\naccel-run: this file is full, more was dropped\n";
    text = with_end;
    closed_ = true;
  }
  while (!text.empty()) {
    const ssize_t count = ::write(file_.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      closed_ = true;
      return warn("what a rank prints is lost: cannot write '" + path_ +
                  "': " + std::strerror(errno));
    }
    bytes_ += count;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

void LazyLog::add(std::string_view text) {
  if (closed_ || path_.empty()) return;
  if (!file_) {
    pending_ += text.substr(0, kPending - std::min(kPending, pending_.size()));
    return open();
  }
  write(text);
}

void Relay::add(std::string_view text) {
  const size_t room = kRelayed - std::min(kRelayed, text_.size());
  dropped_ |= text.size() > room;
  text_ += text.substr(0, room);
  flush();
}

void Relay::flush() {
  while (!text_.empty() && writable(fd_, 0)) {
    const ssize_t count = ::write(fd_, text_.data(), std::min(text_.size(), kAtomicWrite));
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    text_.erase(0, count < 0 ? text_.size() : static_cast<size_t>(count));
    if (text_.empty() && std::exchange(dropped_, false)) {
      text_ = "\naccel-run: more was printed, but this is read too slowly\n";
    }
  }
}

void Relay::finish(int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  for (flush(); pending() && std::chrono::steady_clock::now() < end; flush()) writable(fd_, 100);
}

RankOutput::RankOutput(OwnedFd pipe, std::string log_path, Relay* relay)
    : pipe_(std::move(pipe)), log_(std::move(log_path)), relay_(relay) {
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
}

bool RankOutput::take() {
  char buffer[65536];
  for (int i = 0; i < 16 && pipe_; ++i) {
    const ssize_t count = ::read(pipe_.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return false;
    if (count <= 0) {
      pipe_.reset();
      return false;
    }
    const std::string_view text(buffer, static_cast<size_t>(count));
    tail_.add(text);
    if (relay_) {
      relay_->add(text);
    } else {
      log_.add(text);
    }
  }
  return static_cast<bool>(pipe_);
}

}  // namespace accel
