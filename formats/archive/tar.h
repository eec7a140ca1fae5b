// Index of tar archives (ustar, with pax and GNU long names) in a mapped file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/base/mapped_file.h"

namespace accel {

/// A regular file in an archive.
struct TarMember {
  std::string name;   ///< without a leading "./"
  size_t offset = 0;  ///< of its content in the archive
  size_t size = 0;
};

/// The regular files of an archive in order; skips folders, links and devices. Throws DataError
/// with `name` for a compressed or truncated archive, a damaged header, and sparse files.
std::vector<TarMember> index_tar(std::span<const std::byte> archive, const std::string& name);

}  // namespace accel
