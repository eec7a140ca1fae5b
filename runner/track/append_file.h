// A file that only grows, and the safe way to replace one.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/tracker.h"

namespace accel {

/// Buffers what is appended. Every failure is an IoError with the path and the system's reason.
/// One thread at a time.
class AppendFile {
 public:
  /// Opens the file at its end; makes it and its folder when they are missing.
  explicit AppendFile(std::string path);
  /// Writes what is left if it can; call flush() to hear of failures.
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  static constexpr size_t kMostWaiting = size_t{16} << 20;

  const std::string& path() const { return path_; }
  /// After a failure up to kMostWaiting bytes wait in the buffer for a disk with room; beyond that
  /// it throws and takes none of `bytes`.
  void append(std::string_view bytes);
  /// Throws when the next append() would take nothing.
  void make_room();
  /// Hands everything to the operating system, so that others can read it. After a failure the rest
  /// stays in the buffer and the next call goes on from there.
  void flush();
  /// As flush(), and waits until it is on the disk.
  void sync();
  void flush(Flush how) { how == Flush::kDurable ? sync() : flush(); }

 private:
  std::string path_;
  std::string buffer_;
  int descriptor_ = -1;
};

/// Replaces `path` by what `fill` appends. Readers and crashes see the old file or the new one,
/// never a part. Nothing else may hold the file open for writing.
void replace_file(const std::string& path, const std::function<void(AppendFile&)>& fill);

}  // namespace accel
