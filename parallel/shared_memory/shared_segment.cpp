#include "parallel/shared_memory/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace accel {
namespace {

[[noreturn]] void throw_system(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

size_t whole_pages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

/// A lock of the whole file that belongs to an open file, not to a process (fcntl(2), F_OFD_SETLK).
struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

SharedSegment::SharedSegment(size_t header_bytes)
    : fd_(memfd_create("accel-run", MFD_CLOEXEC)), header_bytes_(whole_pages(header_bytes)) {
  if (!fd_) throw_system("memfd_create");
  if (ftruncate(fd_.get(), static_cast<off_t>(header_bytes_)) != 0) throw_system("ftruncate");
  struct flock lock = whole_file();
  if (fcntl(fd_.get(), F_OFD_SETLK, &lock) != 0) throw_system("fcntl");
  map_header(MAP_SHARED);
  std::random_device random;
  key_ = uint64_t{random()} << 32 | random();
  std::memcpy(header_, &key_, sizeof key_);
}

SharedSegment::SharedSegment(size_t header_bytes, const std::string& name)
    : header_bytes_(whole_pages(header_bytes)) {
  int64_t process = 0, fd = 0;
  std::istringstream(name) >> process >> fd >> key_;
  fd_ = open_fd("/proc/" + std::to_string(process) + "/fd/" + std::to_string(fd), O_RDWR);
  if (!fd_) throw_system("open");
  struct stat status = {};
  if (fstat(fd_.get(), &status) != 0) throw_system("fstat");
  const bool large = static_cast<size_t>(status.st_size) >= header_bytes_;
  uint64_t key = 0;
  if (large) {
    map_header(MAP_SHARED);
    std::memcpy(&key, header_, sizeof key);
  }
  if (key != key_ || !large) throw std::runtime_error("not the memory of a rank");
}

SharedSegment::~SharedSegment() {
  if (data_) munmap(data_, mapped_);
  if (header_) munmap(header_, header_bytes_);
}

std::string SharedSegment::name() const {
  std::ostringstream out;
  out << getpid() << ' ' << fd_.get() << ' ' << key_;
  return out.str();
}

void SharedSegment::resize(size_t bytes) {
  bytes_ = whole_pages(bytes);
  if (ftruncate(fd_.get(), static_cast<off_t>(header_bytes_ + bytes_)) != 0) {
    throw_system("ftruncate");
  }
}

std::byte* SharedSegment::data(uint64_t offset, size_t bytes) {
  if (offset + bytes > mapped_) {
    struct stat status = {};
    if (fstat(fd_.get(), &status) != 0) throw_system("fstat");
    map_data(static_cast<size_t>(status.st_size) - header_bytes_);
  }
  return data_ + offset;
}

void SharedSegment::close() {
  // Mappings keep the file open, and the lock with it.
  struct flock lock = whole_file();
  lock.l_type = F_UNLCK;
  fcntl(fd_.get(), F_OFD_SETLK, &lock);
  fd_.reset();
}

bool SharedSegment::is_open() const {
  struct flock lock = whole_file();
  if (fcntl(fd_.get(), F_OFD_GETLK, &lock) != 0) throw_system("fcntl");
  return lock.l_type != F_UNLCK;
}

void SharedSegment::map_header(int flags) {
  void* mapped = mmap(nullptr, header_bytes_, PROT_READ | PROT_WRITE, flags, fd_.get(), 0);
  if (mapped == MAP_FAILED) throw_system("mmap");
  header_ = static_cast<std::byte*>(mapped);
}

void SharedSegment::map_data(size_t bytes) {
  void* mapped = data_ ? mremap(data_, mapped_, bytes, MREMAP_MAYMOVE)
                       : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(),
                              static_cast<off_t>(header_bytes_));
  if (mapped == MAP_FAILED) throw_system("mmap");
  data_ = static_cast<std::byte*>(mapped);
  mapped_ = bytes;
}

}  // namespace accel
