// The checksums that others publish of their files: MD5, SHA-1 and SHA-256.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace accel {

/// A checksum of bytes that come bit by bit.
class Digest {
 public:
  enum class Kind { kMd5, kSha1, kSha256 };

  explicit Digest(Kind kind);
  void add(std::string_view bytes);
  /// In hexadecimal, lower case. Nothing may be added afterwards.
  std::string finish();

 private:
  void take_block(const unsigned char* block);

  Kind kind_;
  std::array<uint32_t, 8> state_;
  std::array<unsigned char, 64> block_{};
  size_t filled_ = 0;
  uint64_t bytes_ = 0;
};

/// Of a whole text.
std::string digest_of(Digest::Kind kind, std::string_view bytes);

}  // namespace accel
