#include "core/base/mapped_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "core/base/text.h"

namespace accel {
namespace {

[[noreturn]] void refuse(const std::string& path) {
  const int reason = errno;
  if (reason == ENOENT || reason == ENOTDIR) {
    throw DataError(text("no file '{}'", path),
                    "relative paths are resolved from the folder of the recipe file");
  }
  throw DataError(text("cannot read '{}': {}", path, std::strerror(reason)));
}

}  // namespace

SharedBytes map_file(const std::string& path) {
  // O_NONBLOCK: opening a FIFO would block before it is refused.
  const OwnedFd file = open_fd(path, O_RDONLY | O_NONBLOCK);
  struct stat status = {};
  if (!file || ::fstat(file.get(), &status) != 0) refuse(path);
  if (S_ISDIR(status.st_mode)) throw DataError(text("'{}' is a folder, not a file", path));
  if (!S_ISREG(status.st_mode)) throw DataError(text("'{}' is not a regular file", path));
  const size_t size = static_cast<size_t>(status.st_size);
  if (size == 0) return {};
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) refuse(path);
  std::shared_ptr<const void> owner(
      memory, [size](const void* mapped) { ::munmap(const_cast<void*>(mapped), size); });
  return {{static_cast<const std::byte*>(memory), size}, std::move(owner)};
}

void forget_pages(const SharedBytes& file, std::span<const std::byte> bytes) {
  const auto address = [](const std::byte* byte) { return reinterpret_cast<uintptr_t>(byte); };
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t file_begin = address(file.view.data());
  const uintptr_t file_end = file_begin + file.view.size();
  uintptr_t begin = std::max(address(bytes.data()), file_begin);
  uintptr_t end = std::min(address(bytes.data()) + bytes.size(), file_end);
  begin = (begin + page - 1) / page * page;
  // The last page of the file is not shared with other data.
  end = end == file_end ? (end + page - 1) / page * page : end / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace accel
