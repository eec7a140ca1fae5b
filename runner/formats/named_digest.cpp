#include "runner/formats/named_digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runner/formats/digest.h"

namespace accel {
namespace {

template <class Canonical>
std::string hex_of(const Canonical& canonical) {
  constexpr auto kDigits = "0123456789abcdef";
  std::string out;
  for (const unsigned char byte : canonical.digest) {
    out.append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
  }
  return out;
}

std::string hex_of_64(XXH64_hash_t hash) {
  XXH64_canonical_t canonical;
  XXH64_canonicalFromHash(&canonical, hash);
  return hex_of(canonical);
}

}  // namespace

std::optional<std::string> named_digest(const std::string& algorithm, std::string_view bytes) {
  const char* const data = bytes.data();
  const size_t size = bytes.size();
  if (algorithm == "md5") return digest_of(Digest::Kind::kMd5, bytes);
  if (algorithm == "sha1") return digest_of(Digest::Kind::kSha1, bytes);
  if (algorithm == "sha256") return digest_of(Digest::Kind::kSha256, bytes);
  if (algorithm == "xxh64") return hex_of_64(XXH64(data, size, 0));
  if (algorithm == "xxh3_64") return hex_of_64(XXH3_64bits(data, size));
  if (algorithm == "xxh3_128" || algorithm == "xxh128") {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size));
    return hex_of(canonical);
  }
  if (algorithm == "xxh32") {
    XXH32_canonical_t canonical;
    XXH32_canonicalFromHash(&canonical, XXH32(data, size, 0));
    return hex_of(canonical);
  }
  return std::nullopt;
}

}  // namespace accel
