#include "data/spill.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace accel {
namespace {

constexpr size_t kLast = size_t{1} << 18;  // numbers, of 1 MiB
constexpr size_t kNumber = sizeof(int32_t);

/// Calls `move`, which is write() or pread(), until all bytes went.
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

SpilledNumbers::SpilledNumbers(std::filesystem::path folder) : folder_(std::move(folder)) {}

SpilledNumbers::~SpilledNumbers() {
  if (file_ >= 0) ::close(file_);
}

SpilledNumbers::SpilledNumbers(SpilledNumbers&& other) noexcept {
  *this = std::move(other);
}

SpilledNumbers& SpilledNumbers::operator=(SpilledNumbers&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(file_, other.file_);
  std::swap(written_, other.written_);
  std::swap(last_, other.last_);
  return *this;
}

void SpilledNumbers::add(std::span<const int32_t> numbers) {
  last_.insert(last_.end(), numbers.begin(), numbers.end());
  if (folder_.empty() || last_.size() < kLast) return;
  if (!write_last()) take_back();
}

bool SpilledNumbers::open_file() {
  if (file_ >= 0) return true;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  file_ = ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  return file_ >= 0;
}

bool SpilledNumbers::write_last() {
  if (!open_file()) return false;
  const auto* const from = reinterpret_cast<const char*>(last_.data());
  const auto start = static_cast<size_t>(written_) * kNumber;
  const bool done = move_all(last_.size() * kNumber, [&](size_t at, size_t bytes) {
    return ::pwrite(file_, from + at, bytes, static_cast<off_t>(start + at));
  });
  if (!done) return false;
  written_ += static_cast<int64_t>(last_.size());
  last_.clear();
  return true;
}

/// The disk is full: goes on in memory with what was written.
void SpilledNumbers::take_back() {
  std::vector<int32_t> all(static_cast<size_t>(written_));
  auto* const to = reinterpret_cast<char*>(all.data());
  const bool done = move_all(all.size() * kNumber, [&](size_t at, size_t bytes) {
    return ::pread(file_, to + at, bytes, static_cast<off_t>(at));
  });
  if (!done) {
    throw IoError("the tokens that were put aside in '" + folder_.string() +
                  "' cannot be read again");
  }
  all.insert(all.end(), last_.begin(), last_.end());
  last_ = std::move(all);
  written_ = 0;
  folder_.clear();
}

Array SpilledNumbers::mapped() const {
  const size_t bytes = static_cast<size_t>(written_) * kNumber;
  void* const map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_, 0);
  if (map == MAP_FAILED) throw std::bad_alloc();
  const std::shared_ptr<const void> owner(
      map, [bytes](const void* at) { ::munmap(const_cast<void*>(at), bytes); });
  return {DType::kI32, {written_}, static_cast<const std::byte*>(map), owner};
}

Array SpilledNumbers::finish() && {
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
