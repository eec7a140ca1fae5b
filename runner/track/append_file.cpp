#include "runner/track/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/error.h"

namespace accel {
namespace {

constexpr size_t kBufferBytes = 64 << 10;

[[noreturn]] void fail(const std::string& what, const std::string& path, int error) {
  throw IoError("cannot " + what + " '" + path + "': " + std::strerror(error),
                error == ENOSPC || error == EDQUOT ? "free some space and resume the run" : "");
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Makes a rename in `folder` outlive a power cut.
void sync_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail("open", folder, errno);
  const int error = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (error) fail("sync", folder, error);
}

}  // namespace

AppendFile::AppendFile(std::string path) : path_(std::move(path)) {
  std::error_code error;
  std::filesystem::create_directories(folder_of(path_), error);
  if (error) fail("make the folder", folder_of(path_), error.value());
  constexpr mode_t kReadableByAll = 0666;  // less the umask
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kReadableByAll);
  if (descriptor_ < 0) fail("open", path_, errno);
}

AppendFile::~AppendFile() {
  try {
    flush();
  } catch (const IoError&) {  // nobody is left to hear it
  }
  ::close(descriptor_);
}

void AppendFile::make_room() {
  if (buffer_.size() >= kMostWaiting) flush();
}

void AppendFile::append(std::string_view bytes) {
  make_room();
  buffer_ += bytes;
  if (buffer_.size() >= kBufferBytes) flush();
}

void AppendFile::flush() {
  while (!buffer_.empty()) {
    const ssize_t written = ::write(descriptor_, buffer_.data(), buffer_.size());
    if (written >= 0) {
      buffer_.erase(0, static_cast<size_t>(written));
    } else if (errno != EINTR) {
      fail("write", path_, errno);
    }
  }
}

void AppendFile::sync() {
  flush();
  // Pipes and devices have no disk to wait for.
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail("sync", path_, errno);
}

void replace_file(const std::string& path, const std::function<void(AppendFile&)>& fill) {
  const std::string staged = path + ".new";
  ::unlink(staged.c_str());  // left by a crash
  {
    AppendFile file(staged);
    fill(file);
    file.sync();
  }
  if (::rename(staged.c_str(), path.c_str()) != 0) fail("replace", path, errno);
  sync_folder(folder_of(path));
}

}  // namespace accel
