// What ranks print: always taken from them, however much it is, and kept within bounds.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "runner/launch/owned_fd.h"

namespace accel {

/// The last lines of a text that comes in pieces.
class LastLines {
 public:
  static constexpr size_t kLines = 20;
  static constexpr size_t kLongestLine = 400;  ///< bytes; the rest of a line is not kept

  void add(std::string_view text);
  /// At most kLines, an unfinished one included.
  std::vector<std::string> lines() const;

 private:
  std::deque<std::string> done_;
  std::string unfinished_;
};

/// A file that is made once there is something to write and its folder exists. Until then it keeps
/// the first 256 KiB. When it would grow beyond the cap, one line says that the rest was dropped.
/// Failures are warned of, once.
class LazyLog {
 public:
  static constexpr int64_t kCap = 16 << 20;  ///< bytes, what the file held before included

  /// An empty path: nothing is written.
  explicit LazyLog(std::string path) : path_(std::move(path)) {}

  void add(std::string_view text);
  /// Whether there is a file with something of this run.
  bool written() const { return static_cast<bool>(file_); }
  const std::string& path() const { return path_; }

 private:
  void open();
  void write(std::string_view text);

  std::string path_, pending_;
  OwnedFd file_;
  int64_t bytes_ = 0;
  bool closed_ = false;
};

/// Passes text on to a descriptor without ever waiting for its reader: at most 1 MiB is kept for
/// one that is slow; then a line says that more was dropped.
class Relay {
 public:
  explicit Relay(int fd) : fd_(fd) {}

  void add(std::string_view text);
  bool pending() const { return !text_.empty(); }
  int fd() const { return fd_; }
  /// Writes what can be written at once.
  void flush();
  /// Waits for a slow reader, but not longer than this.
  void finish(int milliseconds);

 private:
  int fd_;
  std::string text_;
  bool dropped_ = false;
};

/// One rank's pipe.
class RankOutput {
 public:
  /// `relay`, which may be null, gets everything at once; else the log does.
  RankOutput(OwnedFd pipe, std::string log_path, Relay* relay);

  /// -1 once the rank has closed its end.
  int fd() const { return pipe_.get(); }
  /// Takes what is there, up to 1 MiB; returns whether there may be more.
  bool take();
  std::vector<std::string> last_lines() const { return tail_.lines(); }
  const LazyLog& log() const { return log_; }
  bool relayed() const { return relay_ != nullptr; }

 private:
  OwnedFd pipe_;
  LazyLog log_;
  Relay* relay_;
  LastLines tail_;
};

}  // namespace accel
