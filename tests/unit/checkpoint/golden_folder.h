// Folders that other programs wrote, and tables of what they hold.
#pragma once

#include <cstdlib>
#include <string>

#include <zlib.h>

#include "checkpoint/tensors.h"

namespace accel {

inline std::string golden_folder(const std::string& name) {
  return std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/tests/unit/formats/golden/" + name;
}

/// The CRC-32 of a tensor's elements, as the tables have it.
inline std::string crc_text(const at::Tensor& tensor) {
  const Array array = array_of(tensor, "a tensor");
  return std::to_string(crc32_z(0, reinterpret_cast<const Bytef*>(array.data()), array.bytes()));
}

}  // namespace accel
