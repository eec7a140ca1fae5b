// Decompression of gzip and Zstandard data in memory, with bounded output.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/base/mapped_file.h"

namespace accel {

/// The largest compression ratio of deflate.
constexpr size_t kMaxInflation = 1032;

/// Whether `bytes` begin with the gzip magic number.
bool is_gzip(std::span<const std::byte> bytes);

/// The first `count` inflated bytes, or all if there are fewer. Throws DataError with `name` for a
/// damaged stream.
std::vector<std::byte> gunzip_start(std::span<const std::byte> packed, size_t count,
                                    const std::string& name);

/// Inflates all gzip members. Throws DataError with `name` for a damaged or truncated stream, for
/// other bytes after it, and for more than `cap` bytes.
SharedBytes gunzip(std::span<const std::byte> packed, size_t cap, const std::string& name);

/// A file's content: mapped, or inflated if it is gzip by content.
SharedBytes map_or_gunzip(const std::string& path, size_t cap);

/// Decompresses Zstandard frames to exactly `size` bytes with libzstd.so.1, loaded at first use.
/// Throws DataError with `name` for damaged data, another size, and a missing library.
std::vector<std::byte> unzstd(std::span<const std::byte> packed, size_t size,
                              const std::string& name);

}  // namespace accel
