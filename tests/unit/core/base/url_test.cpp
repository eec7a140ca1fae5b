#include "core/base/url.h"

#include <gtest/gtest.h>

#include "core/base/log.h"
#include "core/recipe/diagnostic.h"

namespace accel::url_test {
namespace {

TEST(UrlTest, MessagesHaveNoCredentials) {
  EXPECT_EQ(origin_of_url("https://u:p@a.b:8/c?d"), "https://a.b:8");
  EXPECT_EQ(origin_of_url("a/b"), "");
  EXPECT_EQ(printable_url("https://u:p@a.b:8/c?d#e"), "https://a.b:8/c");
}

struct Case {
  const char* text;
  const char* wanted;
};

TEST(UrlTest, PasswordsInATextAreReplaced) {
  const Case cases[] = {
      {"no URL, a@b", "no URL, a@b"},
      {"'http://h/x' and https://h:80/p@v1", "'http://h/x' and https://h:80/p@v1"},
      {"http://[::1]:80/p@v1", "http://[::1]:80/p@v1"},
      {"got 'https://me:pass@host', want", "got 'https://***@host', want"},
      {"s3://token@bucket/x postgresql://u:a/b@h/db", "s3://***@bucket/x postgresql://***@h/db"},
      {"http://u:p@q@h and http://u:p@h", "http://***@h and http://***@h"},
      {"http://", "http://"},
  };
  for (const Case& each : cases) EXPECT_EQ(without_passwords(each.text), each.wanted);
}

TEST(UrlTest, PrintedLinesAndErrorsHaveNoPasswords) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  say("sent to http://u:p@h");
  warn("cannot reach http://u:p@h");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "sent to http://***@h\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning: cannot reach http://***@h\n");
  const Diagnostic problem{{}, "'uri' is 'http://u:p@h'", "not 'http://u:p@h'"};
  EXPECT_EQ(render(problem), "error: 'uri' is 'http://***@h'\n  hint: not 'http://***@h'\n");
  EXPECT_EQ(render_json(problem),
            "{\"severity\": \"error\", \"message\": \"'uri' is 'http://***@h'\", \"hint\": \"not "
            "'http://***@h'\"}\n");
}

}  // namespace
}  // namespace accel::url_test
