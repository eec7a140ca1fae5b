#include "runner/formats/mapped_file.h"

#include <cerrno>
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

}  // namespace accel
