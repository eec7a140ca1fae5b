// Location of real data sets, which are not part of the repository.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace accel {

/// Path of a file or folder of the real data; "" without it.
inline std::string real_data(const std::string& name) {
  const char* folder = std::getenv("ACCEL_TEST_DATA");
  const std::string path =
      (folder ? folder : std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/../shared/data") + "/" +
      name;
  return std::filesystem::exists(path) ? path : "";
}

}  // namespace accel
