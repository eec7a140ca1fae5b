#include "core/base/regular_file.h"

#include <filesystem>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {

void require_regular_file(const std::string& path) {
  std::error_code error;  // reported by the next open
  const auto type = std::filesystem::status(path, error).type();
  using enum std::filesystem::file_type;
  if (type == regular || type == not_found || type == none) return;
  throw IoError(text("'{}' is not a regular file", path), "remove it");
}

std::ifstream open_regular_file(const std::string& path) {
  std::error_code unknown;
  std::ifstream in;
  if (std::filesystem::is_regular_file(path, unknown)) {
    in.open(path, std::ios::binary);
  } else {
    in.setstate(std::ios::failbit);
  }
  return in;
}

}  // namespace accel
