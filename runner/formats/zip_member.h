// One file out of a zip archive as tools for archives make them: deflated or stored.
#pragma once

#include <cstddef>
#include <string>

#include "runner/formats/bytes.h"
#include "runner/formats/mapped_file.h"

namespace accel {

/// The content of the entry `name`, checked against its CRC-32. Throws FormatError when there is no
/// such entry, when it is damaged, encrypted, or packed in another way, when it has more than `cap`
/// bytes, and for ZIP64 and archives in several parts.
SharedBytes unzip_member(ByteSpan archive, const std::string& name, size_t cap);

}  // namespace accel
