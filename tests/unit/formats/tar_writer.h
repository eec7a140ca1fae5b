// Members of tar archives as bytes, for tests.
#pragma once

#include <cstdio>
#include <string>

namespace accel {

struct TarMemberKind {
  char type = '0';
  std::string prefix = {};
};

/// `header` with its checksum.
inline std::string with_checksum(std::string header) {
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(header[i]);
  char digits[8];
  std::snprintf(digits, sizeof digits, "%06o", sum);
  return header.replace(148, 7, digits, 7);
}

/// A ustar header and the content in whole blocks.
inline std::string tar_member(const std::string& name, const std::string& content,
                              const TarMemberKind& kind = {}) {
  std::string block(512, '\0');
  block.replace(0, name.size(), name);
  char size[12];
  std::snprintf(size, sizeof size, "%011zo", content.size());
  block.replace(124, 11, size);
  block[156] = kind.type;
  block.replace(257, 8,
                std::string("ustar\0"
                            "00",
                            8));
  block.replace(345, kind.prefix.size(), kind.prefix);
  return with_checksum(block) + content + std::string((512 - content.size() % 512) % 512, '\0');
}

inline std::string tar_end() {
  return std::string(1024, '\0');
}

}  // namespace accel
