// XXH3 against its published vectors, and hashing in pieces.
#include "formats/checksum.h"

#include <gtest/gtest.h>

namespace accel::checksum_test {
namespace {

TEST(ChecksumTest, KnownTextsHaveKnownHashes) {
  EXPECT_EQ(hex_text(checksum_of({})), "2d06800538d394c2");
  EXPECT_EQ(hex_text(checksum_of(as_bytes("a"))), "e6c632b61e964e1f");
  EXPECT_EQ(hex_text(checksum_of(as_bytes("abc"))), "78af5f94892f3950");
}

TEST(ChecksumTest, PiecesGiveTheHashOfTheWhole) {
  const std::string text(3000, 'x');
  for (const size_t cut : {0, 1, 240, 241, 1024, 2999, 3000}) {
    Checksum pieces;
    pieces.update(as_bytes(text).first(cut));
    pieces.update(as_bytes(text).subspan(cut));
    EXPECT_EQ(pieces.value(), checksum_of(as_bytes(text))) << cut;
  }
}

TEST(ChecksumTest, HexIsPaddedTo16Digits) {
  EXPECT_EQ(hex_text(0xabc), "0000000000000abc");
}

}  // namespace
}  // namespace accel::checksum_test
