#include "core/base/digest.h"

#include <gtest/gtest.h>

namespace accel::digest_test {
namespace {

using Kind = Digest::Kind;

TEST(DigestTest, KnownAnswersOfTheStandards) {
  EXPECT_EQ(digest_of(Kind::kMd5, ""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(digest_of(Kind::kMd5, "message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(digest_of(Kind::kSha1, ""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(digest_of(Kind::kSha1, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(digest_of(Kind::kSha256, "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of(Kind::kSha256, std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(digest_of(Kind::kSha1, std::string(1'000'000, 'a')),
            "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
  EXPECT_EQ(digest_of(Kind::kMd5, std::string(1'000'000, 'a')), "7707d6ae4e027c70eea2a935c2296f21");
}

TEST(DigestTest, IncrementalInputOfAnyChunkSizeGivesTheSameDigest) {
  const std::string text(300, 'x');
  for (const Kind kind : {Kind::kMd5, Kind::kSha1, Kind::kSha256}) {
    for (const size_t piece : {1u, 55u, 56u, 63u, 64u, 65u, 299u}) {
      Digest digest(kind);
      for (size_t at = 0; at < text.size(); at += piece) digest.add(text.substr(at, piece));
      EXPECT_EQ(digest.finish(), digest_of(kind, text)) << piece;
    }
  }
}

// The examples of FIPS 180-4, and the lengths around which the padding needs another block; those
// digests are coreutils' sha256sum's.
TEST(DigestTest, Sha256IsThatOfTheStandard) {
  const struct {
    std::string text;
    const char* digest;
  } cases[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {std::string(1'000'000, 'a'),
       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
      {std::string(55, 'x'), "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072"},
      {std::string(56, 'x'), "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e"},
      {std::string(63, 'x'), "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2"},
      {std::string(64, 'x'), "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c"},
      {std::string(119, 'x'), "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c"},
      {std::string(120, 'x'), "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98"},
  };
  for (const auto& [text, digest] : cases) {
    EXPECT_EQ(digest_of(Kind::kSha256, text), digest) << text.size() << " bytes";
  }
}

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

TEST(DigestTest, NamedDigestsAreThoseOfPython) {
  for (const auto& [algorithm, digest] : kDigests) {
    EXPECT_EQ(named_digest(algorithm, "good film"), digest) << algorithm;
  }
  EXPECT_EQ(named_digest("blake2b", "good film"), std::nullopt);
}

}  // namespace
}  // namespace accel::digest_test
