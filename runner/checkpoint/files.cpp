#include "runner/checkpoint/files.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace accel {
namespace {

/// Calls again what a signal interrupted.
template <class Call>
auto retried(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, const char* action)
      : fd_(retried([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); })) {
    if (fd_ < 0) throw FileError(action, path, errno);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  operator int() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// How much a file gathers before the disk is told to begin: one that waits for fsync() idles
/// meanwhile.
constexpr int64_t kWriteBehind = int64_t{8} << 20;

class DiskOutput final : public OutputFile {
 public:
  explicit DiskOutput(std::string path)
      : path_(std::move(path)), fd_(path_, O_WRONLY | O_CREAT | O_EXCL, "create") {}

  void write(ByteSpan bytes) override {
    while (!bytes.empty()) {
      const ssize_t count = retried([&] { return ::write(fd_, bytes.data(), bytes.size()); });
      if (count < 0) throw FileError("write", path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(count));
      written_ += count;
    }
    if (written_ - begun_ < kWriteBehind) return;
    // Only a hint: it waits for nothing, and sync() reports what failed.
    ::sync_file_range(fd_, begun_, written_ - begun_, SYNC_FILE_RANGE_WRITE);
    begun_ = written_;
  }

  void sync() override {
    if (::fsync(fd_) != 0) throw FileError("sync", path_, errno);
  }

  void close() override {
    // On Linux the descriptor is gone even when close() reports an error.
    if (::close(fd_.release()) != 0) throw FileError("close", path_, errno);
  }

 private:
  std::string path_;
  Descriptor fd_;
  int64_t written_ = 0;
  int64_t begun_ = 0;  ///< bytes that the disk was told to write
};

/// None for one that somebody has removed meanwhile.
std::optional<DirEntry> entry_of(const std::string& folder, const std::string& name) {
  struct stat facts = {};
  const std::string path = folder + "/" + name;
  if (::lstat(path.c_str(), &facts) != 0) {
    if (errno == ENOENT) return std::nullopt;
    throw FileError("look at", path, errno);
  }
  DirEntry out{name, DirEntry::Kind::kOther, 0};
  if (S_ISDIR(facts.st_mode)) out.kind = DirEntry::Kind::kFolder;
  if (S_ISREG(facts.st_mode)) {
    out.kind = DirEntry::Kind::kFile;
    out.bytes = facts.st_size;
  }
  return out;
}

}  // namespace

std::unique_ptr<OutputFile> DiskFiles::create(const std::string& path) {
  return std::make_unique<DiskOutput>(path);
}

SharedBytes DiskFiles::read(const std::string& path) {
  // A FIFO would block for ever without O_NONBLOCK; regular files ignore it.
  const Descriptor fd(path, O_RDONLY | O_NONBLOCK, "read");
  struct stat facts = {};
  if (::fstat(fd, &facts) != 0) throw FileError("read", path, errno);
  if (!S_ISREG(facts.st_mode)) throw FileError("read", path, EINVAL);
  if (facts.st_size == 0) return {};
  const auto size = static_cast<size_t>(facts.st_size);
  // Writable, as a copy of one's own: a tensor may be made of it.
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (memory == MAP_FAILED) throw FileError("read", path, errno);
  ::madvise(memory, size, MADV_WILLNEED);
  return {{static_cast<const std::byte*>(memory), size},
          std::shared_ptr<const void>(memory, [size](void* mapped) { ::munmap(mapped, size); })};
}

void DiskFiles::make_dirs(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw FileError("make the folder", path, error.value());
}

void DiskFiles::sync_dir(const std::string& path) {
  const Descriptor fd(path, O_RDONLY | O_DIRECTORY, "sync");
  if (::fsync(fd) != 0) throw FileError("sync", path, errno);
}

void DiskFiles::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw FileError("rename", from, errno);
}

void DiskFiles::remove_tree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) throw FileError("remove", path, error.value());
}

std::vector<DirEntry> DiskFiles::list(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
  if (!folder && errno == ENOENT) return {};
  if (!folder) throw FileError("list", path, errno);
  std::vector<DirEntry> out;
  // An error looks like the end: only errno tells them apart.
  for (errno = 0; const dirent* item = ::readdir(folder.get()); errno = 0) {
    const std::string name = item->d_name;
    if (name == "." || name == "..") continue;
    if (std::optional<DirEntry> entry = entry_of(path, name)) out.push_back(std::move(*entry));
  }
  if (errno != 0) throw FileError("list", path, errno);
  std::sort(out.begin(), out.end(),
            [](const DirEntry& a, const DirEntry& b) { return a.name < b.name; });
  return out;
}

int64_t DiskFiles::free_space(const std::string& path) {
  struct statvfs facts = {};
  if (::statvfs(path.c_str(), &facts) != 0) throw FileError("look at", path, errno);
  return static_cast<int64_t>(facts.f_bavail) * static_cast<int64_t>(facts.f_frsize);
}

}  // namespace accel
