// Golden files, written by other programs.
#pragma once

#include <cstdlib>
#include <string>

#include "tests/unit/formats/test_bytes.h"

namespace accel {

inline std::string golden_path(const std::string& name) {
  return std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/tests/unit/formats/golden/" + name;
}

inline std::string golden_file(const std::string& name) {
  return file_content(golden_path(name));
}

}  // namespace accel
