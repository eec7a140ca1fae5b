// Files as memory: read-only maps that live as long as anything that points into them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace accel {

/// Bytes, and what keeps them alive.
struct SharedBytes {
  std::span<const std::byte> view;
  std::shared_ptr<const void> owner;
};

/// Maps a regular file read-only; an empty file gives an empty view. The file must not shrink while
/// it is mapped. Throws DataError when it is missing, unreadable or no regular file.
SharedBytes map_file(const std::string& path);

/// Gives back the memory of those pages of a mapped `file` that lie wholly within `bytes`; looking
/// there again reads them again. Bytes outside the file are left alone.
void forget_pages(const SharedBytes& file, std::span<const std::byte> bytes);

}  // namespace accel
