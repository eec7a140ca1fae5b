#include "core/recipe/toml_unicode_workaround.h"

#include <gtest/gtest.h>

namespace accel::toml_unicode_workaround_test {
namespace {

TEST(Plane15Test, MovesWhatIsBeyondAsciiAndBack) {
  // U+0080, U+07FF, U+0800, U+FFFF and one that needs no move.
  const std::string text = "a\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x9f\x98\x80z";
  const std::string moved =
      "a\xf3\xb0\x82\x80\xf3\xb0\x9f\xbf\xf3\xb0\xa0\x80\xf3\xbf\xbf\xbf\xf0\x9f\x98\x80z";
  EXPECT_EQ(to_plane15(text), moved);
  EXPECT_EQ(from_plane15(moved), text);
}

TEST(Plane15Test, EveryCharacterComesBack) {
  for (unsigned c = 0x80; c <= 0xFFFF; ++c) {
    const std::string text = c < 0x800 ? std::string{static_cast<char>(0xC0 | c >> 6),
                                                     static_cast<char>(0x80 | (c & 63))}
                                       : std::string{static_cast<char>(0xE0 | c >> 12),
                                                     static_cast<char>(0x80 | (c >> 6 & 63)),
                                                     static_cast<char>(0x80 | (c & 63))};
    if (c >= 0xD800 && c <= 0xDFFF) continue;  // no characters: halves of UTF-16 pairs
    const std::string moved = to_plane15(text);
    ASSERT_EQ(moved.size(), 4u) << c;
    ASSERT_EQ(from_plane15(moved), text) << c;
  }
}

TEST(Plane15Test, FindsWhatIsThereAlready) {
  EXPECT_EQ(first_in_plane15("ab\xef\xbf\xbf\xf4\x80\x80\x80 \\u000F \\U0001F600"), std::nullopt);
  EXPECT_EQ(first_in_plane15("ab\xf3\xb0\x80\x80"), 2u);
  EXPECT_EQ(first_in_plane15("ab\\U000Fabcd"), 2u);
  EXPECT_EQ(first_in_plane15("\\U000f0000"), 0u);
}

}  // namespace
}  // namespace accel::toml_unicode_workaround_test
