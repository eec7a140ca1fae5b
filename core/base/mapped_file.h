// Memory-mapped files, read-only and reference-counted.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace accel {

/// A byte span and its owner.
struct SharedBytes {
  std::span<const std::byte> view;
  std::shared_ptr<const void> owner;
};

/// Maps a regular file read-only; an empty file gives an empty view. The file must not shrink while
/// it is mapped. Throws DataError when it is missing, unreadable or no regular file.
SharedBytes map_file(const std::string& path);

/// Evicts the pages of a mapped `file` that lie within `bytes` (MADV_DONTNEED); the next access
/// reads them again. Bytes outside the file are ignored.
void forget_pages(const SharedBytes& file, std::span<const std::byte> bytes);

}  // namespace accel
