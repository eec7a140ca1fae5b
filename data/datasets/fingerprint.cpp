#include "data/datasets/fingerprint.h"

#include <cstdio>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace accel {
namespace {

constexpr size_t kWholeBelow = size_t{16} << 20;
constexpr size_t kBlocks = 256;
constexpr size_t kBlockSize = 4096;

}  // namespace

void Fingerprint::mix(const void* data, size_t size) {
  hash_ = XXH3_64bits_withSeed(data, size, hash_);
}

Fingerprint& Fingerprint::add(std::string_view text) {
  mix(text.data(), text.size());
  return add(static_cast<int64_t>(text.size()));  // "ab", "c" and "a", "bc" must differ
}

Fingerprint& Fingerprint::add(int64_t number) {
  mix(&number, sizeof number);
  return *this;
}

Fingerprint& Fingerprint::add_content(std::span<const std::byte> content) {
  if (content.size() <= kWholeBelow) {
    mix(content.data(), content.size());
  } else {
    const size_t last = content.size() - kBlockSize;
    for (size_t i = 0; i < kBlocks; ++i) mix(&content[last * i / (kBlocks - 1)], kBlockSize);
  }
  return add(static_cast<int64_t>(content.size()));
}

std::string Fingerprint::text() const {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash_));
  return digits;
}

}  // namespace accel
