#include "runner/formats/digest.h"

#include <gtest/gtest.h>

namespace accel {
namespace {

using Kind = Digest::Kind;

TEST(DigestTest, GivesWhatTheStandardsSay) {
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

TEST(DigestTest, ThePiecesDoNotMatter) {
  const std::string text(300, 'x');
  for (const Kind kind : {Kind::kMd5, Kind::kSha1, Kind::kSha256}) {
    for (const size_t piece : {1u, 55u, 56u, 63u, 64u, 65u, 299u}) {
      Digest digest(kind);
      for (size_t at = 0; at < text.size(); at += piece) digest.add(text.substr(at, piece));
      EXPECT_EQ(digest.finish(), digest_of(kind, text)) << piece;
    }
  }
}

}  // namespace
}  // namespace accel
