#include "core/base/digest.h"

#include <algorithm>
#include <bit>
#include <cmath>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/text.h"

namespace accel {
namespace {

constexpr std::array<uint32_t, 8> kSha256Start = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
/// MD5 takes the first four words, SHA-1 five.
constexpr std::array<uint32_t, 8> kOtherStart = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                                                 0xc3d2e1f0, 0,          0,          0};

bool is_prime(uint32_t n) {
  for (uint32_t i = 2; i * i <= n; ++i) {
    if (n % i == 0) return false;
  }
  return true;
}

/// SHA-256 constants: the first 32 fraction bits of the cube roots of the first 64 primes.
std::array<uint32_t, 64> cube_root_fractions() {
  std::array<uint32_t, 64> out{};
  size_t count = 0;
  for (uint32_t n = 2; count < out.size(); ++n) {
    if (!is_prime(n)) continue;
    // The largest r with r^3 <= n * 2^96: its low 32 bits are the fraction.
    __extension__ using Wide = unsigned __int128;
    uint64_t root = 0;
    for (int bit = 35; bit >= 0; --bit) {
      const uint64_t next = root | uint64_t{1} << bit;
      const Wide square = static_cast<Wide>(next) * next;
      if (square <= (static_cast<Wide>(n) << 96) / next) root = next;
    }
    out[count++] = static_cast<uint32_t>(root);
  }
  return out;
}

/// MD5 constants: the first 32 fraction bits of |sin 1|, |sin 2|, ...
std::array<uint32_t, 64> sines() {
  std::array<uint32_t, 64> out{};
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<uint32_t>(
        std::floor(std::fabs(std::sin(static_cast<double>(i + 1))) * 4294967296.0));
  }
  return out;
}

uint32_t big_word(const unsigned char* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
}

uint32_t little_word(const unsigned char* at) {
  return uint32_t{at[3]} << 24 | uint32_t{at[2]} << 16 | uint32_t{at[1]} << 8 | at[0];
}

void sha256_block(std::array<uint32_t, 8>& state, const unsigned char* block) {
  static const std::array<uint32_t, 64> constants = cube_root_fractions();
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) w[i] = big_word(block + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                           ((e & f) ^ (~e & g)) + constants[i] + w[i];
    const uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const std::array<uint32_t, 8> more = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state[i] += more[i];
}

void sha1_block(std::array<uint32_t, 8>& state, const unsigned char* block) {
  std::array<uint32_t, 80> w;
  for (size_t i = 0; i < 16; ++i) w[i] = big_word(block + 4 * i);
  for (size_t i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  constexpr uint32_t kRound[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
  for (size_t i = 0; i < 80; ++i) {
    const uint32_t mixed = i < 20   ? (b & c) | (~b & d)
                           : i < 40 ? b ^ c ^ d
                           : i < 60 ? (b & c) | (b & d) | (c & d)
                                    : b ^ c ^ d;
    const uint32_t next = std::rotl(a, 5) + mixed + e + kRound[i / 20] + w[i];
    e = d, d = c, c = std::rotl(b, 30), b = a, a = next;
  }
  const std::array<uint32_t, 5> more = {a, b, c, d, e};
  for (size_t i = 0; i < 5; ++i) state[i] += more[i];
}

void md5_block(std::array<uint32_t, 8>& state, const unsigned char* block) {
  static const std::array<uint32_t, 64> constants = sines();
  constexpr int kShift[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  for (size_t i = 0; i < 64; ++i) {
    const size_t round = i / 16;
    const uint32_t mixed = round == 0   ? (b & c) | (~b & d)
                           : round == 1 ? (d & b) | (~d & c)
                           : round == 2 ? b ^ c ^ d
                                        : c ^ (b | ~d);
    constexpr size_t kFactor[] = {1, 5, 3, 7}, kOffset[] = {0, 1, 5, 0};
    const size_t word = (kFactor[round] * i + kOffset[round]) % 16;
    const uint32_t sum = a + mixed + constants[i] + little_word(block + 4 * word);
    a = d, d = c, c = b, b += std::rotl(sum, kShift[round][i % 4]);
  }
  const std::array<uint32_t, 4> more = {a, b, c, d};
  for (size_t i = 0; i < 4; ++i) state[i] += more[i];
}

template <class Canonical>
std::string hex_of(const Canonical& canonical) {
  return hex_digits(canonical.digest);
}

std::string hex_of_64(XXH64_hash_t hash) {
  XXH64_canonical_t canonical;
  XXH64_canonicalFromHash(&canonical, hash);
  return hex_of(canonical);
}

}  // namespace

Digest::Digest(Kind kind)
    : kind_(kind), state_(kind == Kind::kSha256 ? kSha256Start : kOtherStart) {}

void Digest::take_block(const unsigned char* block) {
  switch (kind_) {
    case Kind::kMd5:
      return md5_block(state_, block);
    case Kind::kSha1:
      return sha1_block(state_, block);
    case Kind::kSha256:
      return sha256_block(state_, block);
  }
}

void Digest::add(std::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), block_.size() - filled_);
    std::copy_n(bytes.data(), count, block_.data() + filled_);
    filled_ += count;
    bytes.remove_prefix(count);
    if (filled_ < block_.size()) return;
    take_block(block_.data());
    filled_ = 0;
  }
}

std::string Digest::finish() {
  const uint64_t bits = bytes_ * 8;
  add(std::string_view("\x80", 1));
  while (filled_ != 56) add(std::string_view("\0", 1));
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) {
    const size_t shift = kind_ == Kind::kMd5 ? 8 * i : 56 - 8 * i;
    length[i] = static_cast<char>(bits >> shift & 0xff);
  }
  add(length);
  const size_t words = kind_ == Kind::kMd5 ? 4 : kind_ == Kind::kSha1 ? 5 : 8;
  std::array<unsigned char, 32> out;
  for (size_t i = 0; i < words * 4; ++i) {
    const size_t shift = kind_ == Kind::kMd5 ? 8 * (i % 4) : 24 - 8 * (i % 4);
    out[i] = static_cast<unsigned char>(state_[i / 4] >> shift & 0xff);
  }
  return hex_digits(std::span(out).first(words * 4));
}

std::string digest_of(Digest::Kind kind, std::string_view bytes) {
  Digest digest(kind);
  digest.add(bytes);
  return digest.finish();
}

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
