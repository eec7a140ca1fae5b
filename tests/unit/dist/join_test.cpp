#include <regex>

#include "tests/unit/dist/ranks.h"

namespace accel {
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
  const std::string wanted = "rank 1 (HOST) wants 3 ranks, rank 0 (HOST) wants 2";
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
  const std::string wanted = "two processes claim to be rank 1: HOST, and HOST";
  for (const std::string& error : join_each(requests)) EXPECT_EQ(plain(error), wanted);
}

TEST(JoinTest, WhoIsWaitedForIsSaidMeanwhile) {
  std::vector<JoinRequest> requests = requests_of(2);
  requests.pop_back();
  requests[0].join_timeout = 6;
  std::vector<std::string> told;
  requests[0].tell = [&](const std::string& line) { told.push_back(line); };
  EXPECT_EQ(join_each(requests), std::vector<std::string>{"rank 1 did not join within 6 s"});
  EXPECT_EQ(told, std::vector<std::string>{"waiting for rank 1 at 127.0.0.1"});
}

}  // namespace
}  // namespace accel
