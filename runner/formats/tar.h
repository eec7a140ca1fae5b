// Tar archives (ustar, with the long names of pax and GNU) as an index into a mapped file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runner/formats/mapped_file.h"

namespace accel {

/// A regular file in an archive.
struct TarMember {
  std::string name;   ///< without a leading "./"
  size_t offset = 0;  ///< of its content in the archive
  size_t size = 0;
};

/// The regular files of an archive in their order. Folders, links and devices are left out. Throws
/// DataError naming `name` when a header is damaged, compressed, sparse or claims bytes beyond the
/// end of the archive.
std::vector<TarMember> index_tar(std::span<const std::byte> archive, const std::string& name);

}  // namespace accel
