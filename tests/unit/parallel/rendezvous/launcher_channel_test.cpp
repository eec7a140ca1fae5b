#include "parallel/rendezvous/launcher_channel.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>

#include "core/base/error.h"

namespace accel::launcher_channel_test {
namespace {

std::optional<LauncherChannel> link_in(const std::map<std::string, std::string>& environment) {
  return find_launcher_channel([&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}

TEST(RankLinkTest, IsWhatTheLauncherSays) {
  EXPECT_FALSE(link_in({{"RANK", "0"}}).has_value());
  const auto link = link_in({{"ACCEL_RUN_TOKEN", "abc"},
                             {"ACCEL_RUN_STORE_FD", "0"},
                             {"ACCEL_RUN_LIFELINE_FD", "1"},
                             {"ACCEL_RUN_GENERATION", "2"}});
  ASSERT_TRUE(link.has_value());
  EXPECT_EQ(link->token, "abc");
  EXPECT_EQ(link->store_fd, 0);
  EXPECT_EQ(link->lifeline_fd, 1);
  EXPECT_EQ(link->generation, 2);
  const auto least = link_in({{"ACCEL_RUN_TOKEN", "abc"}});
  EXPECT_FALSE(least->store_fd.has_value());
  EXPECT_FALSE(least->lifeline_fd.has_value());
  EXPECT_EQ(least->generation, 0);
}

TEST(RankLinkTest, WhatTheLauncherDoesNotSayIsRefused) {
  const char* const cases[][3] = {
      {"ACCEL_RUN_STORE_FD", "x",
       "environment variable 'ACCEL_RUN_STORE_FD' is 'x', not a whole number"},
      {"ACCEL_RUN_STORE_FD", "-1",
       "environment variable 'ACCEL_RUN_STORE_FD' is '-1', not a whole number"},
      {"ACCEL_RUN_STORE_FD", "9999",
       "environment variable 'ACCEL_RUN_STORE_FD' is '9999', not an open file descriptor"},
      {"ACCEL_RUN_LIFELINE_FD", "4294967296",
       "environment variable 'ACCEL_RUN_LIFELINE_FD' is '4294967296', not an open file descriptor"},
      {"ACCEL_RUN_GENERATION", "1.5",
       "environment variable 'ACCEL_RUN_GENERATION' is '1.5', not a whole number"},
  };
  for (const auto& [name, value, problem] : cases) {
    try {
      link_in({{"ACCEL_RUN_TOKEN", "abc"}, {name, value}});
      ADD_FAILURE() << name << ' ' << value;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), problem);
      EXPECT_EQ(error.hint(), "only accel-run's launcher sets it: unset it");
      EXPECT_EQ(error.code(), ExitCode::kRecipe);
    }
  }
}

TEST(OrphanGuardTest, EndsTheGroupWithTheLauncher) {
  int ends[2], child_lives[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(pipe(child_lives), 0);
  const pid_t rank = fork();
  if (rank == 0) {
    setpgid(0, 0);
    close(ends[1]);
    if (fork() == 0) pause();
    const OrphanGuard guard(ends[0]);
    char byte = 1;
    if (write(child_lives[1], &byte, 1) == 1) pause();
    _exit(1);
  }
  char byte = 0;
  ASSERT_EQ(read(child_lives[0], &byte, 1), 1);
  close(child_lives[1]);
  close(ends[0]);
  EXPECT_EQ(waitpid(rank, nullptr, WNOHANG), 0) << "the launcher lives";
  close(ends[1]);
  int status = 0;
  EXPECT_EQ(waitpid(rank, &status, 0), rank);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(read(child_lives[0], &byte, 1), 0) << "its child is gone too";
  close(child_lives[0]);
}

TEST(OrphanGuardTest, LetsGoWhenItIsNotNeeded) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  { const OrphanGuard guard(ends[0]); }
  close(ends[1]);
  const OrphanGuard none(-1);
}

}  // namespace
}  // namespace accel::launcher_channel_test
