#include "track/git_state.h"

#include <gtest/gtest.h>

#include "tests/unit/formats/temp_folder.h"

namespace accel::git_state_test {
namespace {

constexpr auto kCommit = "0123456789abcdef0123456789abcdef01234567";
constexpr auto kCommitLine = "0123456789abcdef0123456789abcdef01234567\n";

TEST(GitStateTest, ABranchACommitAndTheOriginWithoutItsPassword) {
  const TempFolder folder;
  folder.write(".git/HEAD", "ref: refs/heads/topic/x\n");
  folder.write(".git/refs/heads/topic/x", kCommitLine);
  folder.write(".git/config",
               "[core]\n\turl = no\n[remote \"origin\"]\n\tfetch = +x\n"
               "\turl = https://me:key@example.com/a@b\n[remote \"other\"]\n\turl = no\n");
  folder.write("deep/er/recipe.yaml", "");
  const GitState state = git_state(folder.path("deep/er"));
  EXPECT_EQ(state.commit, kCommit);
  EXPECT_EQ(state.branch, "topic/x");
  EXPECT_EQ(state.remote, "https://example.com/a@b");
}

TEST(GitStateTest, PackedBranchesAndDetachedHeads) {
  const TempFolder folder;
  folder.write(".git/HEAD", "ref: refs/heads/main\n");
  folder.write(".git/packed-refs", std::string("# pack-refs\nffff refs/heads/domain\n")
                                       .append(kCommit)
                                       .append(" refs/heads/main\n"));
  EXPECT_EQ(git_state(folder.path()).commit, kCommit);
  folder.write(".git/HEAD", kCommitLine);
  EXPECT_EQ(git_state(folder.path()).commit, kCommit);
  EXPECT_EQ(git_state(folder.path()).branch, "");
}

TEST(GitStateTest, ALinkedWorkTreeSharesTheBranches) {
  const TempFolder folder;
  folder.write("main/.git/refs/heads/side", kCommitLine);
  folder.write("main/.git/config", "[remote \"origin\"]\nurl = git@example.com:x\n");
  folder.write("main/.git/worktrees/side/HEAD", "ref: refs/heads/side\n");
  folder.write("main/.git/worktrees/side/commondir", "../..\n");
  folder.write("side/.git", "gitdir: " + folder.path("main/.git/worktrees/side") + "\n");
  const GitState state = git_state(folder.path("side"));
  EXPECT_EQ(state.commit, kCommit);
  EXPECT_EQ(state.branch, "side");
  EXPECT_EQ(state.remote, "git@example.com:x");
}

TEST(GitStateTest, OutsideOfACheckoutNothingIsKnown) {
  const TempFolder folder;
  const GitState state = git_state(folder.path());
  EXPECT_EQ(state.commit + state.branch + state.remote, "");
}

}  // namespace
}  // namespace accel::git_state_test
