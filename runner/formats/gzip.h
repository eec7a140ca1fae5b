// Gzip streams, inflated into memory under a cap so that a small file cannot fill the machine.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runner/formats/mapped_file.h"

namespace accel {

/// Deflate makes nothing more than this many times smaller.
constexpr size_t kMaxInflation = 1032;

/// Whether `bytes` start as a gzip stream does.
bool is_gzip(std::span<const std::byte> bytes);

/// The first `count` bytes that `packed` inflates to, or fewer when it holds fewer. Throws
/// DataError naming `name` when the stream is damaged.
std::vector<std::byte> gunzip_start(std::span<const std::byte> packed, size_t count,
                                    const std::string& name);

/// All that `packed` inflates to, of every gzip member in it. Throws DataError naming `name` when
/// the stream is damaged, cut short, followed by other bytes, or holds more than `cap` bytes.
SharedBytes gunzip(std::span<const std::byte> packed, size_t cap, const std::string& name);

/// A file's content: mapped, or inflated when it is gzip (by content, not by name).
SharedBytes map_or_gunzip(const std::string& path, size_t cap);

}  // namespace accel
