#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/track/tiny_server.h"
#include "track/remote_tracker.h"

namespace accel::curl_transport_test {
namespace {

using std::chrono::milliseconds;

HttpReply answer_to(Transport& transport, const HttpRequest& request) {
  transport.start(request);
  for (int i = 0; i < 100; ++i) {
    if (const auto reply = transport.wait(milliseconds(100))) return *reply;
  }
  return {};
}

TEST(CurlTransportTest, SendsWhatItIsGivenAndReturnsTheAnswer) {
  TinyServer server({"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                     "HTTP/1.1 404 Gone\r\nContent-Length: 2\r\n\r\nno"});
  const auto transport = make_curl_transport();
  const HttpReply first =
      answer_to(*transport, {"POST", server.url() + "/log", {"X-Key: 7"}, "a\nb"});
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.body, "hello");
  const HttpReply second = answer_to(*transport, {"GET", server.url() + "/run", {}, ""});
  EXPECT_EQ(second.status, 404);
  EXPECT_EQ(second.body, "no");
  const std::vector<std::string> seen = server.requests();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_TRUE(seen[0].starts_with("POST /log HTTP/1.1\r\n")) << seen[0];
  EXPECT_NE(seen[0].find("\r\nX-Key: 7\r\n"), std::string::npos) << seen[0];
  EXPECT_TRUE(seen[0].ends_with("\r\n\r\na\nb")) << seen[0];
  EXPECT_TRUE(seen[1].starts_with("GET /run HTTP/1.1\r\n")) << seen[1];
}

TEST(CurlTransportTest, AnAnswerThatNeverCameSaysWhy) {
  std::string url;
  {
    TinyServer server({""});
    url = server.url();
    const auto transport = make_curl_transport();
    const HttpReply reply = answer_to(*transport, {"POST", url, {}, "x"});
    EXPECT_EQ(reply.status, 0);
    EXPECT_EQ(reply.error, "Server returned nothing (no headers, no data)");
  }
  const auto transport = make_curl_transport();
  EXPECT_EQ(answer_to(*transport, {"POST", url, {}, "x"}).error, "Couldn't connect to server");
}

TEST(CurlTransportTest, AnEndlessAnswerIsCutOff) {
  TinyServer server({"HTTP/1.1 200 OK\r\n\r\n" + std::string(5 << 20, 'x')});
  const auto transport = make_curl_transport();
  const HttpReply reply = answer_to(*transport, {"GET", server.url(), {}, ""});
  EXPECT_EQ(reply.status, 0);
  EXPECT_EQ(reply.error, "Failed writing received data to disk/application");
}

TEST(CurlTransportTest, WakeEndsAWait) {
  const auto transport = make_curl_transport();
  constexpr milliseconds kLonger{600'000};  // than the test may take
  std::thread waker([&] { transport->wake(); });
  EXPECT_FALSE(transport->wait(kLonger));
  waker.join();
}

}  // namespace
}  // namespace accel::curl_transport_test
