// Memory of one process that others of the machine map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/owned_fd.h"

namespace accel {

/// An anonymous file (memfd_create(2)) with a header of fixed size and data that grow. It leaves
/// nothing behind when its processes end, however they end. For one thread.
class SharedSegment {
 public:
  /// Makes a segment of zeros without data. Throws std::system_error.
  explicit SharedSegment(size_t header_bytes);
  /// Maps the segment of another process, or of this one, by its name(). Throws std::system_error,
  /// or std::runtime_error when the name leads to something else, as that of a process in another
  /// PID namespace does.
  SharedSegment(size_t header_bytes, const std::string& name);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  /// For SharedSegment of other processes of the same user.
  std::string name() const;
  std::byte* header() const { return header_; }

  /// Sets the size of the data, which the owner alone does. Throws std::system_error.
  void resize(size_t bytes);
  size_t bytes() const { return bytes_; }
  /// `bytes` of data from `offset`, which the owner has sized. The address may change with the next
  /// call. Throws std::system_error.
  std::byte* data(uint64_t offset, size_t bytes);

  /// Closes the file: is_open() of others is false from here on. All mappings stay valid.
  void close();
  /// Whether the owner, another object, has the segment still open. False soon after its process
  /// ends.
  bool is_open() const;

 private:
  void map_header(int flags);
  void map_data(size_t bytes);

  OwnedFd fd_;
  size_t header_bytes_;
  uint64_t key_ = 0;
  std::byte* header_ = nullptr;
  std::byte* data_ = nullptr;
  size_t mapped_ = 0;  ///< bytes of data
  size_t bytes_ = 0;
};

}  // namespace accel
