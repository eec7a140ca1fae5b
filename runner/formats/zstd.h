// Zstandard frames, unpacked into memory by the library that every Debian has, loaded when asked
// for.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace accel {

/// All that `packed` unpacks to, which is to be `size` bytes. Throws DataError naming `name` when
/// it is damaged or of another size, and when this machine has no libzstd.so.1.
std::vector<std::byte> unzstd(std::span<const std::byte> packed, size_t size,
                              const std::string& name);

}  // namespace accel
