#include "runner/report/html.h"

#include <gtest/gtest.h>

#include <cmath>

namespace accel::html_test {
namespace {

TEST(HtmlTest, TextCannotBecomeMarkup) {
  EXPECT_EQ(html_text("<script>alert(\"a\" & 'b')</script>"),
            "&lt;script&gt;alert(&quot;a&quot; &amp; &#39;b&#39;)&lt;/script&gt;");
  EXPECT_EQ(html_element("td", "a<b"), "<td>a&lt;b</td>");
}

TEST(HtmlTest, BytesThatNoDocumentMayHoldAreReplaced) {
  EXPECT_EQ(html_text(std::string("a\0b\x1b\n\t", 6)),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd\n\t");
  EXPECT_EQ(html_text("\xff"), "\xef\xbf\xbd");
}

TEST(HtmlTest, NumbersAreShort) {
  const std::pair<double, const char*> cases[] = {{0, "0"},
                                                  {0.012345678, "0.01235"},
                                                  {12.5, "12.5"},
                                                  {1000, "1,000"},
                                                  {1489.4, "1,489"},
                                                  {12345.6, "12,346"},
                                                  {-1234567, "-1,234,567"},
                                                  {1.5e-7, "1.5e-07"},
                                                  {1e20, "1e+20"},
                                                  {NAN, "nan"},
                                                  {-INFINITY, "-inf"}};
  for (const auto& [value, want] : cases) EXPECT_EQ(number_words(value), want) << value;
}

TEST(HtmlTest, CoordinatesHaveOneDecimal) {
  EXPECT_EQ(coordinate(1.26), "1.3");
  EXPECT_EQ(coordinate(-0.01), "0");
  EXPECT_EQ(coordinate(62), "62");
  EXPECT_EQ(coordinate(NAN), "0");
}

TEST(HtmlTest, TimesAreWithoutLetters) {
  EXPECT_EQ(time_words("2026-01-31T12:00:09Z"), "2026-01-31 12:00:09");
  for (const char* other :
       {"", "noon", "2026-01-31T12:00:09", "2026-01-31T12:00:09+", "x026-01-31T12:00:09Z"}) {
    EXPECT_EQ(time_words(other), other);
  }
}

TEST(HtmlTest, NumbersInTablesAreNotBroken) {
  const std::string page = html_page("t", "");
  const size_t cells = page.find("th, td {");
  ASSERT_NE(cells, page.npos);
  EXPECT_EQ(page.substr(cells, page.find('}', cells) - cells).find("anywhere"), std::string::npos);
}

TEST(HtmlTest, DurationsReadAsClocks) {
  const std::pair<double, const char*> cases[] = {{-1, "0 s"},  {0, "0 s"},   {0.25, "0.25 s"},
                                                  {59, "0:59"}, {61, "1:01"}, {3723, "1:02:03"},
                                                  {NAN, "0 s"}};
  for (const auto& [seconds, want] : cases) EXPECT_EQ(duration_words(seconds), want) << seconds;
}

}  // namespace
}  // namespace accel::html_test
