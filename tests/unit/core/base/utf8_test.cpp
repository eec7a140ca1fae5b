#include "core/base/utf8.h"

#include <gtest/gtest.h>

namespace accel::utf8_test {
namespace {

TEST(Utf8Test, BrokenBytesAreFoundWhereTheyStart) {
  EXPECT_EQ(first_unreadable("plain\n\ttext\r\n"), std::nullopt);
  EXPECT_EQ(first_unreadable("\xc3\xa9t\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80"), std::nullopt);
  EXPECT_EQ(first_unreadable("ab\xff"), 2u);
  EXPECT_EQ(first_unreadable("a\xc3"), 1u) << "cut short";
  EXPECT_EQ(first_unreadable("\xc0\xaf"), 0u) << "longer than needed";
  EXPECT_EQ(first_unreadable("\xe0\x80\xaf"), 0u) << "longer than needed";
  EXPECT_EQ(first_unreadable("\xed\xa0\x80"), 0u) << "half of a surrogate pair";
  EXPECT_EQ(first_unreadable("\xf4\x90\x80\x80"), 0u) << "beyond Unicode";
  EXPECT_EQ(first_unreadable("a\x1b[31m"), 1u) << "what a terminal acts on";
  EXPECT_EQ(first_unreadable(std::string("a\0b", 3)), 1u);
  EXPECT_EQ(first_unreadable("a\xc2\x9b"), 1u) << "C1 controls too";
}

TEST(Utf8Test, ControlCharactersAreUtf8Too) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("a\x1b[31m\xc2\x9b\xe6\xbc\xa2"));
  EXPECT_FALSE(is_utf8("a\x85"));
  EXPECT_FALSE(is_utf8("caf\xe9"));
}

TEST(Utf8Test, PrintableTextCannotDriveATerminal) {
  EXPECT_EQ(printable("a\x1b[31m\n\xff"), "a\\x1b[31m\\x0a\\xff");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");
  EXPECT_EQ(printable("\xe6\xbc\xa2"), "\xe6\xbc\xa2");
}

TEST(Utf8Test, WidthsAreTerminalColumns) {
  EXPECT_EQ(display_width("a"), 1u);
  EXPECT_EQ(display_width("\xc3\xa9"), 1u);
  EXPECT_EQ(display_width("\xe6\xbc\xa2"), 2u);
  EXPECT_EQ(display_width("\xf0\x9f\x98\x80"), 2u);
  EXPECT_EQ(display_width("\xcc\x81"), 0u) << "a combining accent";
}

}  // namespace
}  // namespace accel::utf8_test
