#include "formats/records/text_encoding.h"

#include <gtest/gtest.h>

#include "core/base/bytes.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::text_encoding_test {
namespace {

std::string read(const std::string& bytes) {
  return std::string(as_text(as_utf8({bytes_of(bytes), nullptr}, "t.csv").view));
}

/// "aé€😀" in both byte orders.
const std::string kLittle(
    "\xff\xfe"
    "a\0\xe9\0\xac\x20\x3d\xd8\0\xde",
    12);
const std::string kBig("\xfe\xff\0a\0\xe9\x20\xac\xd8\x3d\xde\0", 12);

TEST(TextEncodingTest, Utf16BecomesUtf8) {
  const std::string wanted = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
  EXPECT_EQ(read(kLittle), wanted);
  EXPECT_EQ(read(kBig), wanted);
  EXPECT_EQ(read("\xff\xfe"), "");
}

TEST(TextEncodingTest, OtherFilesAreLeftAsTheyAre) {
  const std::string utf8 = "a,\xc3\xa9\n";
  EXPECT_EQ(read(utf8), utf8);
  EXPECT_EQ(as_utf8({bytes_of(utf8), nullptr}, "t").view.data(), bytes_of(utf8).data());
  EXPECT_EQ(read(""), "");
}

TEST(TextEncodingTest, AByteOrderMarkIsNoText) {
  EXPECT_EQ(read("\xef\xbb\xbf"
                 "a\n"),
            "a\n");
}

TEST(TextEncodingTest, OtherEncodingsAreRefused) {
  EXPECT_EQ(complaint([] { read("a,b\n12345678901234567890,caf\xe9\n"); }),
            "t.csv:2 is not UTF-8: byte 28 of the file\n"
            "convert it, such as by 'iconv -f latin1 -t utf-8 t.csv > NEW'");
}

TEST(TextEncodingTest, InvalidUtf16IsRefused) {
  EXPECT_EQ(complaint([] { read(kLittle + "x"); }),
            "'t.csv' is not valid UTF-16 at byte 12\nsave it as UTF-8");
  EXPECT_EQ(complaint([] { read(kLittle.substr(0, 10)); }),
            "'t.csv' is not valid UTF-16 at byte 8\nsave it as UTF-8");
  EXPECT_EQ(complaint([] { read(std::string("\xff\xfe\0\xde", 4)); }),
            "'t.csv' is not valid UTF-16 at byte 2\nsave it as UTF-8");
}

}  // namespace
}  // namespace accel::text_encoding_test
