#include "core/base/append_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/regular_file.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr size_t kBufferBytes = 64 << 10;

[[noreturn]] void fail_append(const char* action, const std::string& path, int error) {
  throw IoError(text("cannot {} '{}': {}", action, path, std::strerror(error)),
                full_disk_hint(error));
}

}  // namespace

AppendFile::AppendFile(std::string path) : path_(std::move(path)) {
  std::error_code error;
  if (std::filesystem::is_fifo(path_, error)) require_regular_file(path_);  // would block
  file_ = open_fd(path_, O_WRONLY | O_CREAT | O_APPEND);
  if (!file_) fail_append("open", path_, errno);
}

AppendFile::~AppendFile() {
  try {
    flush();
  } catch (const IoError&) {  // a destructor cannot report it
  }
}

void AppendFile::make_room() {
  if (buffer_.size() >= kMaxPending) flush();
}

void AppendFile::append(std::string_view bytes) {
  make_room();
  buffer_ += bytes;
  if (buffer_.size() >= kBufferBytes) flush();
}

void AppendFile::flush() {
  while (!buffer_.empty()) {
    const ssize_t written = ::write(file_.get(), buffer_.data(), buffer_.size());
    if (written >= 0) {
      buffer_.erase(0, static_cast<size_t>(written));
    } else if (errno != EINTR) {
      fail_append("write", path_, errno);
    }
  }
}

void AppendFile::sync() {
  flush();
  // EINVAL: pipes and devices have no storage to sync.
  if (!sync_fd(file_) && errno != EINVAL) fail_append("sync", path_, errno);
}

}  // namespace accel
