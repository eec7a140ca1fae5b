#include "data/datasets/text/disk_backed_buffer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr size_t kLast = size_t{1} << 18;  // numbers, 1 MiB
constexpr size_t kNumber = sizeof(int32_t);

/// Calls `move`, which is write() or pread(), until all bytes are transferred.
template <class Move>
bool move_all(size_t bytes, const Move& move) {
  for (size_t at = 0; at < bytes;) {
    const ssize_t count = move(at, bytes - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

DiskBackedBuffer::DiskBackedBuffer(std::filesystem::path folder) : folder_(std::move(folder)) {}

DiskBackedBuffer::~DiskBackedBuffer() = default;

DiskBackedBuffer::DiskBackedBuffer(DiskBackedBuffer&& other) noexcept {
  *this = std::move(other);
}

DiskBackedBuffer& DiskBackedBuffer::operator=(DiskBackedBuffer&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(file_, other.file_);
  std::swap(written_, other.written_);
  std::swap(last_, other.last_);
  return *this;
}

void DiskBackedBuffer::add(std::span<const int32_t> numbers) {
  last_.insert(last_.end(), numbers.begin(), numbers.end());
  if (folder_.empty() || last_.size() < kLast) return;
  if (!write_last()) take_back();
}

bool DiskBackedBuffer::open_file() {
  if (file_) return true;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  file_ = open_fd(folder_.string(), O_TMPFILE | O_RDWR, 0600);
  return static_cast<bool>(file_);
}

bool DiskBackedBuffer::write_last() {
  if (!open_file()) return false;
  const auto* const from = reinterpret_cast<const char*>(last_.data());
  const auto start = static_cast<size_t>(written_) * kNumber;
  const bool done = move_all(last_.size() * kNumber, [&](size_t at, size_t bytes) {
    return ::pwrite(file_.get(), from + at, bytes, static_cast<off_t>(start + at));
  });
  if (!done) return false;
  written_ += static_cast<int64_t>(last_.size());
  last_.clear();
  return true;
}

/// The disk is full: reads the written numbers back and continues in memory.
void DiskBackedBuffer::take_back() {
  std::vector<int32_t> all(static_cast<size_t>(written_));
  auto* const to = reinterpret_cast<char*>(all.data());
  const bool done = move_all(all.size() * kNumber, [&](size_t at, size_t bytes) {
    return ::pread(file_.get(), to + at, bytes, static_cast<off_t>(at));
  });
  if (!done) {
    throw IoError(text("cannot read back the temporary tokens in '{}'", folder_.string()));
  }
  all.insert(all.end(), last_.begin(), last_.end());
  last_ = std::move(all);
  written_ = 0;
  folder_.clear();
}

Array DiskBackedBuffer::mapped() const {
  const size_t bytes = static_cast<size_t>(written_) * kNumber;
  void* const map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_.get(), 0);
  if (map == MAP_FAILED) throw std::bad_alloc();
  const std::shared_ptr<const void> owner(
      map, [bytes](const void* at) { ::munmap(const_cast<void*>(at), bytes); });
  return {DType::kI32, {written_}, static_cast<const std::byte*>(map), owner};
}

Array DiskBackedBuffer::finish() && {
  if (written_ > 0) {
    if (write_last()) return mapped();
    take_back();
  }
  if (last_.empty()) return {};
  auto owner = std::make_shared<const std::vector<int32_t>>(std::move(last_));
  return {DType::kI32,
          {static_cast<int64_t>(owner->size())},
          reinterpret_cast<const std::byte*>(owner->data()),
          owner};
}

}  // namespace accel
