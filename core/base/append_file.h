// Append-only file: metrics, journals and queues of records.
#pragma once

#include <string>
#include <string_view>

#include "core/base/owned_fd.h"

namespace accel {

/// How far written data must get: other processes read it, or it survives a crash of the machine.
enum class Flush { kReadable, kDurable };

/// Buffered. Every failure is an IoError with the path and the system's reason. Not thread-safe.
class AppendFile {
 public:
  /// Opens the file at its end; creates it when it is missing, in a folder that exists.
  explicit AppendFile(std::string path);
  /// Flushes and ignores errors; call flush() to see them.
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Upper bound of the bytes that are buffered while writes fail.
  static constexpr size_t kMaxPending = size_t{16} << 20;

  const std::string& path() const { return path_; }
  /// Buffers `bytes` and writes full buffers. After a failed write the bytes stay buffered for a
  /// retry; with kMaxPending bytes buffered it throws and takes none of `bytes`.
  void append(std::string_view bytes);
  /// Throws when append() would take nothing.
  void make_room();
  /// Writes the buffer. After a failure the unwritten rest stays for the next call.
  void flush();
  /// flush() and fsync(2).
  void sync();
  void flush(Flush how) { how == Flush::kDurable ? sync() : flush(); }

 private:
  std::string path_;
  std::string buffer_;
  OwnedFd file_;
};

}  // namespace accel
