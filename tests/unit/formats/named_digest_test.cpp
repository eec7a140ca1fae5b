#include "runner/formats/named_digest.h"

#include <gtest/gtest.h>

namespace accel {
namespace {

/// As hashlib and xxhash of Python give them for b"good film".
constexpr std::pair<const char*, const char*> kDigests[] = {
    {"md5", "e50c7812002271e90944d4733e3517d8"},
    {"sha1", "613f0ea2c406c7ec7cc2fd7fe7d51f0b64ea0d7a"},
    {"sha256", "952317a5f018c6712fd295b83d0ca244dc3fe72da22440b2f578cf6f8cc2d050"},
    {"xxh32", "1fcb1429"},
    {"xxh64", "575b935f3148b651"},
    {"xxh3_64", "38d3775e7bbc813b"},
    {"xxh3_128", "2d00abe3644874db496005475e8883e0"},
    {"xxh128", "2d00abe3644874db496005475e8883e0"},
};

TEST(NamedDigestTest, IsPythons) {
  for (const auto& [algorithm, digest] : kDigests) {
    EXPECT_EQ(named_digest(algorithm, "good film"), digest) << algorithm;
  }
  EXPECT_EQ(named_digest("blake2b", "good film"), std::nullopt);
}

}  // namespace
}  // namespace accel
