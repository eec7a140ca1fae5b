#include "core/base/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/base/drafts.h"
#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "core/base/text.h"

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

OwnedFd opened(const std::string& path, int flags, const char* action) {
  OwnedFd fd = open_fd(path, flags);
  if (!fd) throw FileError(action, path, errno);
  return fd;
}

void sync_or_throw(const OwnedFd& fd, const std::string& path) {
  if (!sync_fd(fd)) throw FileError("sync", path, errno);
}

/// Bytes between requests for writeback: without them the disk idles until fsync().
constexpr int64_t kWriteBehind = int64_t{8} << 20;

class DiskOutput final : public OutputFile {
 public:
  explicit DiskOutput(std::string path)
      : path_(std::move(path)), fd_(opened(path_, O_WRONLY | O_CREAT | O_EXCL, "create")) {}

  void write(ByteSpan bytes) override {
    while (!bytes.empty()) {
      const ssize_t count = retried([&] { return ::write(fd_.get(), bytes.data(), bytes.size()); });
      if (count < 0) throw FileError("write", path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(count));
      written_ += count;
    }
    if (written_ - begun_ < kWriteBehind) return;
    // Only a hint: it waits for nothing, and sync() reports what failed.
    ::sync_file_range(fd_.get(), begun_, written_ - begun_, SYNC_FILE_RANGE_WRITE);
    begun_ = written_;
  }

  void sync() override { sync_or_throw(fd_, path_); }

  void close() override {
    // On Linux the descriptor is gone even when close() reports an error.
    if (::close(fd_.release()) != 0) throw FileError("close", path_, errno);
  }

 private:
  std::string path_;
  OwnedFd fd_;
  int64_t written_ = 0;
  int64_t begun_ = 0;  ///< bytes with writeback requested
};

/// None for a file removed since it was listed.
std::optional<DirEntry> entry_of(const std::string& folder, const std::string& name) {
  struct stat status = {};
  const std::string path = folder + "/" + name;
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return std::nullopt;
    throw FileError("look at", path, errno);
  }
  DirEntry out{name, DirEntry::Kind::kOther, 0};
  if (S_ISDIR(status.st_mode)) out.kind = DirEntry::Kind::kFolder;
  if (S_ISREG(status.st_mode)) {
    out.kind = DirEntry::Kind::kFile;
    out.bytes = status.st_size;
  }
  return out;
}

[[noreturn]] void throw_io_error(const char* action, const std::string& path, int error) {
  throw IoError(text("cannot {} '{}': {}", action, path, std::strerror(error)),
                full_disk_hint(error));
}

void remove_draft(Files& files, const std::string& draft) {
  try {
    files.remove_tree(draft);
  } catch (const FileError&) {  // the first error is reported
  }
}

/// Collects small writes: one call per line of a text would be slow.
void write_buffered(OutputFile& file, const FileWriter& writer) {
  constexpr size_t kBufferBytes = 64 << 10;
  std::string buffer;
  writer([&](ByteSpan bytes) {
    if (buffer.size() + bytes.size() <= kBufferBytes) {
      buffer += as_text(bytes);
      return;
    }
    file.write(as_bytes(buffer));
    buffer.clear();
    file.write(bytes);
  });
  file.write(as_bytes(buffer));
}

}  // namespace

std::unique_ptr<OutputFile> DiskFiles::create(const std::string& path) {
  return std::make_unique<DiskOutput>(path);
}

SharedBytes DiskFiles::read(const std::string& path) {
  // A FIFO would block for ever without O_NONBLOCK; regular files ignore it.
  const OwnedFd fd = opened(path, O_RDONLY | O_NONBLOCK, "read");
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) throw FileError("read", path, errno);
  if (!S_ISREG(status.st_mode)) throw FileError("read", path, EINVAL);
  if (status.st_size == 0) return {};
  const auto size = static_cast<size_t>(status.st_size);
  // Writable copy-on-write: tensors are made of it.
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd.get(), 0);
  if (memory == MAP_FAILED) throw FileError("read", path, errno);
  ::madvise(memory, size, MADV_WILLNEED);
  return {{static_cast<const std::byte*>(memory), size},
          std::shared_ptr<const void>(memory, [size](void* mapped) { ::munmap(mapped, size); })};
}

void DiskFiles::make_dirs(const std::string& path, const std::string& within) {
  std::error_code error;
  if (within.empty()) {
    std::filesystem::create_directories(path, error);
    if (error) throw FileError("make the folder", path, error.value());
    return;
  }
  namespace fs = std::filesystem;
  fs::path folder = within;
  for (const auto& name : fs::absolute(path).lexically_relative(fs::absolute(within))) {
    folder /= name;
    fs::create_directory(folder, error);
    if (error == std::errc::file_exists) error = std::make_error_code(std::errc::not_a_directory);
    if (error) throw FileError("make the folder", path, error.value());
  }
}

void DiskFiles::sync_dir(const std::string& path) {
  sync_or_throw(opened(path, O_RDONLY | O_DIRECTORY, "sync"), path);
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
  // An error looks like the end; errno distinguishes them.
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
  struct statvfs status = {};
  if (::statvfs(path.c_str(), &status) != 0) throw FileError("look at", path, errno);
  return static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

void make_folder_of(const std::string& path) {
  const std::string folder = folder_of(path);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_io_error("make the folder", folder, error.value());
}

void write_file_atomically(Files& files, const std::string& path, const FileWriter& writer) {
  const std::string draft = draft_of(path);
  try {
    files.remove_tree(draft);
    const std::unique_ptr<OutputFile> file = files.create(draft);
    write_buffered(*file, writer);
    file->sync();
    file->close();
    files.rename(draft, path);
    files.sync_dir(folder_of(path));
  } catch (const FileError& error) {
    remove_draft(files, draft);
    throw FileError("write", path, error.code().value());
  } catch (...) {
    remove_draft(files, draft);
    throw;
  }
}

void write_file_atomically(Files& files, const std::string& path, std::string_view bytes) {
  write_file_atomically(files, path, [&](const ByteSink& write) { write(as_bytes(bytes)); });
}

void write_file_atomically(const std::string& path, const FileWriter& writer) try {
  DiskFiles files;
  write_file_atomically(files, path, writer);
} catch (const FileError& error) {
  throw IoError(error.what(), full_disk_hint(error.code().value()));
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  write_file_atomically(path, [&](const ByteSink& write) { write(as_bytes(bytes)); });
}

void write_file_with_folder(const std::string& path, std::string_view bytes) {
  make_folder_of(path);
  write_file_atomically(path, bytes);
}

void publish_file(const std::string& from, const std::string& to) try {
  sync_or_throw(opened(from, O_RDONLY, "sync"), from);
  DiskFiles files;
  files.rename(from, to);
  files.sync_dir(folder_of(to));
} catch (const FileError& error) {
  throw_io_error("write", to, error.code().value());
}

std::string full_disk_hint(int error) {
  if (error == EFBIG) return "raise the limit on the size of a file: ulimit -f";
  return error == ENOSPC || error == EDQUOT ? "free some space on that disk" : "";
}

}  // namespace accel
