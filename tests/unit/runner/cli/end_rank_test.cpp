#include "runner/cli/end_rank.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>

namespace accel::end_rank_test {
namespace {

const Error kHang(ExitCode::kTimeout, "rank 0 waited", "look at rank 1");

TEST(EndRankTest, TheErrorIsPrintedWithoutALauncher) {
  BoardWriter board;
  EXPECT_EXIT(end_rank(board, kHang, false), testing::ExitedWithCode(6),
              "^error: rank 0 waited\n  hint: look at rank 1\n$");
  EXPECT_EXIT(end_rank(board, kHang, true), testing::ExitedWithCode(6),
              "^.\"severity\": \"error\", \"message\": \"rank 0 waited\", \"hint\": \"look at rank "
              "1\".\n$");
}

TEST(EndRankTest, TheLauncherGetsTheErrorAndNothingIsPrinted) {
  const Board board(1);
  BoardWriter writer(::dup(board.fd()), 0);
  EXPECT_EXIT(end_rank(writer, kHang, false), testing::ExitedWithCode(6), "^$");
  const RankStatus status = board.read(0);
  EXPECT_TRUE(status.failed);
  EXPECT_EQ(status.exit_code, 6);
  EXPECT_EQ(status.error, "error: rank 0 waited\n  hint: look at rank 1\n");
}

/// The test's own standard error is not the one that is blocked.
[[noreturn]] void end_with_blocked_error() {
  int ends[2];
  if (::pipe(ends) != 0) ::_exit(1);
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  const std::string page(4096, 'x');
  while (::write(ends[1], page.data(), page.size()) > 0) {
  }
  ::fcntl(ends[1], F_SETFL, 0);
  ::dup2(ends[1], STDERR_FILENO);
  BoardWriter board;
  end_rank(board, kHang, false);
}

TEST(EndRankTest, AReaderWhoDoesNotReadCannotHoldTheProcess) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EXIT(end_with_blocked_error(), testing::ExitedWithCode(6), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

}  // namespace
}  // namespace accel::end_rank_test
