// Digests of files: MD5, SHA-1 and SHA-256, and xxHash by name.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// Incremental digest.
class Digest {
 public:
  enum class Kind { kMd5, kSha1, kSha256 };

  explicit Digest(Kind kind);
  void add(std::string_view bytes);
  /// In lower-case hex digits. Ends the digest: no add() afterwards.
  std::string finish();

 private:
  void take_block(const unsigned char* block);

  Kind kind_;
  std::array<uint32_t, 8> state_;
  std::array<unsigned char, 64> block_{};
  size_t filled_ = 0;
  uint64_t bytes_ = 0;
};

/// The digest of `bytes` in lower-case hex digits.
std::string digest_of(Digest::Kind kind, std::string_view bytes);

/// By the name that Python's hashlib or xxhash gives the algorithm: md5, sha1, sha256, xxh32,
/// xxh64, xxh3_64, xxh3_128 or xxh128. None for any other name.
std::optional<std::string> named_digest(const std::string& algorithm, std::string_view bytes);

}  // namespace accel
