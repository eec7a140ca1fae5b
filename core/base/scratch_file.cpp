#include "core/base/scratch_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"

namespace accel {
namespace {

std::string gibibytes(int64_t bytes) {
  std::array<char, 32> out;
  std::snprintf(out.data(), out.size(), "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
  return out.data();
}

/// A file without a name; where the file system has none, one whose name is removed at once.
OwnedFd nameless(const std::string& folder, int flags) {
  OwnedFd fd = open_fd(folder, O_TMPFILE | O_EXCL | O_RDWR | flags, 0600);
  if (fd || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOSYS)) return fd;
  const std::string path = folder + "/.accel-run-scratch-" + std::to_string(::getpid());
  fd = open_fd(path, O_CREAT | O_EXCL | O_RDWR | flags, 0600);
  const int error = errno;
  if (fd) ::unlink(path.c_str());
  errno = error;
  return fd;
}

/// Passes all `bytes` to `call(done, left)`, which returns as pread(2). Returns the errno; EIO for
/// a file that ends early.
template <class Call>
int in_full(size_t bytes, bool direct, const Call& call) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t count = call(done, bytes - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    size_t moved = static_cast<size_t>(count);
    // Direct I/O continues at a block.
    if (direct && moved < bytes - done) moved -= moved % ScratchFile::kBlock;
    if (moved == 0) return EIO;
    done += moved;
  }
  return 0;
}

}  // namespace

ScratchFile::ScratchFile(const std::string& folder, ScratchCalls calls)
    : folder_(folder), calls_(std::move(calls)) {
  struct statfs found = {};
  if (::statfs(folder.c_str(), &found) != 0) {
    throw IoError(
        text("cannot use '{}' for scratch: {}", folder, std::generic_category().message(errno)),
        "create the folder, or set 'accelerator.fsdp.offload_path' to one on a fast local disk");
  }
  if (found.f_type == TMPFS_MAGIC || found.f_type == RAMFS_MAGIC) {
    throw IoError(text("'{}' is in memory (tmpfs), which offload is to save", folder),
                  "set 'accelerator.fsdp.offload_path' to a folder on a disk");
  }
  fd_ = nameless(folder, O_DIRECT);
  direct_ = static_cast<bool>(fd_);
  if (!fd_ && errno == EINVAL) fd_ = nameless(folder, 0);
  if (!fd_) fail("create the scratch file", errno);
}

void ScratchFile::fail(const std::string& action, int error) const {
  const std::string hint = full_disk_hint(error);
  throw IoError(
      text("cannot {} in '{}': {}", action, folder_, std::generic_category().message(error)),
      hint.empty() ? "check the disk, or set 'accelerator.fsdp.offload_path' to another" : hint);
}

int64_t ScratchFile::grow(int64_t more) {
  const int error = calls_.reserve(fd_.get(), bytes_, more);
  if (error != 0) {
    struct statfs found = {};
    const bool known = ::statfs(folder_.c_str(), &found) == 0;
    const std::string free =
        known ? text(", {} are free", gibibytes(static_cast<int64_t>(found.f_bavail) *
                                                static_cast<int64_t>(found.f_bsize)))
              : "";
    throw IoError(text("cannot reserve scratch space in '{}' for offload: {}; {} are reserved, {} "
                       "more are needed{}",
                       folder_, std::generic_category().message(error), gibibytes(bytes_),
                       gibibytes(more), free),
                  "free disk space, set 'accelerator.fsdp.offload_path' to a larger disk, or train "
                  "with more ranks");
  }
  return std::exchange(bytes_, bytes_ + more);
}

void ScratchFile::read(int64_t offset, std::span<std::byte> to) const {
  const int error = in_full(to.size(), direct_, [&](size_t done, size_t left) {
    return calls_.read(fd_.get(), to.data() + done, left, offset + static_cast<off_t>(done));
  });
  if (error != 0) fail("read the scratch file", error);
}

void ScratchFile::write(int64_t offset, ByteSpan from) const {
  const int error = in_full(from.size(), direct_, [&](size_t done, size_t left) {
    return calls_.write(fd_.get(), from.data() + done, left, offset + static_cast<off_t>(done));
  });
  if (error != 0) fail("write the scratch file", error);
}

}  // namespace accel
