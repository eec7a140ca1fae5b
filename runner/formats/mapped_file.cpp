#include "runner/formats/mapped_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"

namespace accel {
namespace {

class OpenFile {
 public:
  // Without O_NONBLOCK a FIFO would block here, before it can be refused.
  explicit OpenFile(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

[[noreturn]] void refuse(const std::string& path) {
  const int reason = errno;
  if (reason == ENOENT || reason == ENOTDIR) {
    throw DataError("no file '" + path + "'",
                    "relative paths start at the folder of the recipe that names them");
  }
  throw DataError("cannot read '" + path + "': " + std::strerror(reason));
}

}  // namespace

SharedBytes map_file(const std::string& path) {
  const OpenFile file(path);
  struct stat facts = {};
  if (file.descriptor() < 0 || ::fstat(file.descriptor(), &facts) != 0) refuse(path);
  if (S_ISDIR(facts.st_mode)) throw DataError("'" + path + "' is a folder, not a file");
  if (!S_ISREG(facts.st_mode)) throw DataError("'" + path + "' is not a regular file");
  const size_t size = static_cast<size_t>(facts.st_size);
  if (size == 0) return {};
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
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
  // The last page of a file belongs to nobody else.
  end = end == file_end ? (end + page - 1) / page * page : end / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace accel
