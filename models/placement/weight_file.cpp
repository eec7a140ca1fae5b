#include "models/placement/weight_file.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {

WeightFile::WeightFile(const std::string& path, PositionedRead read)
    : path_(path), read_(std::move(read)), buffered_(open_fd(path, O_RDONLY)) {
  if (!buffered_) {
    throw IoError(
        text("cannot open the weights of '{}': {}", path, std::generic_category().message(errno)),
        "check that the file still exists");
  }
  unbuffered_ = open_fd(path, O_RDONLY | O_DIRECT);
  direct_ = static_cast<bool>(unbuffered_);
}

void WeightFile::read(int64_t offset, std::span<std::byte> to, int64_t needed) const {
  for (size_t done = 0; done < static_cast<size_t>(needed);) {
    const bool is_direct = direct_;
    const int fd = is_direct ? unbuffered_.get() : buffered_.get();
    const ssize_t count =
        read_(fd, to.data() + done, to.size() - done, offset + static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EINVAL && is_direct) {
      direct_ = false;
      continue;
    }
    const std::string reason =
        count < 0 ? std::generic_category().message(errno) : "the file has ended";
    auto moved = static_cast<size_t>(std::max<ssize_t>(count, 0));
    // Direct I/O continues at a block.
    if (is_direct && done + moved < static_cast<size_t>(needed)) moved -= moved % kBlock;
    if (moved == 0) {
      throw IoError(text("cannot read the weights of '{}': {}", path_, reason),
                    "check the disk, and that the file is complete");
    }
    if (!is_direct) evict(offset + static_cast<int64_t>(done), static_cast<int64_t>(moved));
    done += moved;
  }
}

void WeightFile::evict(int64_t offset, int64_t bytes) const {
  ::posix_fadvise(buffered_.get(), offset, bytes, POSIX_FADV_DONTNEED);
}

}  // namespace accel
