#include "formats/base64.h"

#include <gtest/gtest.h>

namespace accel::base64_test {
namespace {

TEST(Base64Test, AnswersAsTheStandardHasThem) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

TEST(Base64Test, ReadsWhatItWrites) {
  for (const std::string bytes : {"", "f", "fo", "foo", "foob", "\xff\xfe\xfd\x01"}) {
    EXPECT_EQ(base64_decode(base64(bytes)), bytes);
  }
}

TEST(Base64Test, RefusesAnyOtherText) {
  for (const char* text :
       {"Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm 9v", "====", "Zg==Zg=="}) {
    EXPECT_EQ(base64_decode(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace accel::base64_test
