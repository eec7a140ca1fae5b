#include <unistd.h>

#include <map>
#include <optional>
#include <regex>

#include "core/base/text.h"
#include "tests/unit/parallel/ranks.h"

namespace accel::join_test {
namespace {

/// The error with what differs from machine to machine left out.
std::string plain(const std::string& error) {
  static const std::regex process("[^ (]+, process [0-9]+");
  return std::regex_replace(error, process, "HOST");
}

TEST(JoinTest, RanksFindEachOther) {
  on_ranks(3, [](Communicator& group) { EXPECT_EQ(group.world(), 3); });
}

TEST(JoinTest, ARankThatDoesNotComeIsNamed) {
  std::vector<JoinRequest> requests = requests_of(4);
  for (JoinRequest& request : requests) request.join_timeout = 1;
  requests.erase(requests.begin() + 2, requests.end());
  const std::string wanted = "ranks 2 3 did not join within 1 s";
  EXPECT_EQ(join_each(requests), (std::vector<std::string>{wanted, wanted}));
}

TEST(JoinTest, AnotherNumberOfRanksIsToldOnAll) {
  std::vector<JoinRequest> requests = requests_of(2);
  requests[1].world = 3;
  const std::string wanted = "rank 1 (HOST) is configured for 3 ranks, rank 0 (HOST) for 2";
  for (const std::string& error : join_each(requests)) EXPECT_EQ(plain(error), wanted);
}

TEST(JoinTest, AnotherRecipeIsToldOnAll) {
  std::vector<JoinRequest> requests = requests_of(2);
  requests[1].recipe = "another";
  const std::string wanted = "rank 1 (HOST) has another recipe than rank 0 (HOST)";
  for (const std::string& error : join_each(requests)) EXPECT_EQ(plain(error), wanted);
}

TEST(JoinTest, AnotherBuildIsToldOnAll) {
  std::vector<JoinRequest> requests = requests_of(2);
  requests[1].build = "another";
  const std::string wanted = "rank 1 (HOST) runs another, rank 0 (HOST) runs build";
  for (const std::string& error : join_each(requests)) EXPECT_EQ(plain(error), wanted);
}

TEST(JoinTest, TwoProcessesThatClaimOneRankAreToldOnAll) {
  std::vector<JoinRequest> requests = requests_of(3);
  requests[2].rank = 1;
  const std::string wanted = "two processes have rank 1: HOST, and HOST";
  for (const std::string& error : join_each(requests)) EXPECT_EQ(plain(error), wanted);
}

/// "code message" of what one of two ranks throws.
std::string join_error(int64_t rank, int port) {
  JoinRequest request;
  request.rank = rank;
  request.world = 2;
  request.port = port;
  request.join_timeout = 1;
  try {
    join(request);
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + " " + error.what();
  }
  return "no error";
}

TEST(JoinTest, APortInUseIsAnErrorOfRank0) {
  const Listener taken;
  const std::string found = join_error(0, taken.port);
  EXPECT_TRUE(found.starts_with(text("5 rank 0 cannot listen on 127.0.0.1:{}: ", taken.port)))
      << found;
  EXPECT_EQ(found.find('\n'), std::string::npos);
  close(taken.fd);
}

TEST(JoinTest, WithoutRank0NoOtherRankJoins) {
  const Listener closed;
  close(closed.fd);
  EXPECT_EQ(
      join_error(1, closed.port),
      text("6 no connection to '127.0.0.1' port {} within 1 s: Connection refused", closed.port));
}

TEST(JoinTest, AListenerThatDoesNotAnswerIsRefused) {
  const Listener silent;
  EXPECT_EQ(join_error(1, silent.port),
            text("6 rank 1 is connected to 127.0.0.1:{}, which does not answer as rank 0 of "
                 "accel-run does",
                 silent.port));
  close(silent.fd);
}

TEST(JoinTest, AnotherProtocolIsRefusedInTheSameWords) {
  const Listener other;
  std::jthread server([&] {
    while (true) {
      const int client = accept(other.fd, nullptr, nullptr);
      if (client < 0) return;
      const std::string reply = "HTTP/1.1 400 Bad Request\r\n\r\n";
      (void)!write(client, reply.data(), reply.size());
      close(client);
    }
  });
  testing::internal::CaptureStderr();
  EXPECT_EQ(join_error(1, other.port),
            text("6 rank 1 is connected to 127.0.0.1:{}, which does not answer as rank 0 of "
                 "accel-run does",
                 other.port));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  shutdown(other.fd, SHUT_RDWR);
  close(other.fd);
}

TEST(JoinTest, WhoIsWaitedForIsSaidMeanwhile) {
  std::vector<JoinRequest> requests = requests_of(2);
  requests.pop_back();
  requests[0].join_timeout = 6;
  std::vector<std::string> lines;
  requests[0].report_waiting = [&](const std::string& line) { lines.push_back(line); };
  EXPECT_EQ(join_each(requests), std::vector<std::string>{"rank 1 did not join within 6 s"});
  EXPECT_EQ(lines, std::vector<std::string>{"waiting for rank 1 at 127.0.0.1"});
}

constexpr int kLauncherSocket = 123;

/// What join_request() makes of rank `rank` of 2 under the given launcher.
JoinRequest request_under(int64_t rank, const std::map<std::string, std::string>& variables,
                          const std::optional<LauncherChannel>& channel) {
  const Listener listener;
  const int port = listener.port;
  close(listener.fd);
  RankInfo info;
  info.rank = rank;
  info.world = 2;
  info.main_address = "127.0.0.1";
  info.main_port = port;
  const JoinRequest request = join_request(info, channel, [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
  EXPECT_EQ(request.rank, rank);
  EXPECT_EQ(request.world, 2);
  EXPECT_EQ(request.address, "127.0.0.1");
  EXPECT_EQ(request.port, port);
  return request;
}

TEST(JoinRequestTest, ALauncherServesTheStore) {
  LauncherChannel channel;
  channel.store_fd = kLauncherSocket;
  EXPECT_EQ(request_under(0, {}, channel).listen_fd, kLauncherSocket);
  EXPECT_EQ(request_under(1, {}, LauncherChannel()).listen_fd, std::nullopt);
}

TEST(JoinRequestTest, TorchrunServesTheStoreForEachRestart) {
  for (const int64_t rank : {0, 1}) {
    const JoinRequest request = request_under(
        rank, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}, {});
    EXPECT_TRUE(request.external_store);
    EXPECT_EQ(request.group, "2");
    EXPECT_EQ(request.listen_fd, std::nullopt);
  }
}

TEST(JoinRequestTest, WithoutEitherRankZeroListensAtTheMainAddress) {
  const JoinRequest main = request_under(0, {}, {});
  ASSERT_TRUE(main.listen_fd);
  sockaddr_in address = {};
  socklen_t size = sizeof address;
  ASSERT_EQ(getsockname(*main.listen_fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_EQ(ntohs(address.sin_port), main.port);
  close(*main.listen_fd);
  EXPECT_FALSE(main.external_store);
  EXPECT_EQ(main.group, "");
  EXPECT_EQ(request_under(1, {}, {}).listen_fd, std::nullopt);
}

}  // namespace
}  // namespace accel::join_test
